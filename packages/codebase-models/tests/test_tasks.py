"""The tasks of models by name: the library's own transform is the reference."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image

import enginebay as eb
from enginebay.authors.sources import read_task
from enginebay.hooks import ModelRequest
from enginebay_models.plugin import model_sources
from enginebay_models.records import crop, resize
from enginebay_models.tasks import timm_task
from enginebay_testing.command_runs import call_command

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOISE = np.random.default_rng(0)
PICTURES = [
    Image.fromarray(NOISE.integers(0, 256, size, np.uint8))
    for size in ((301, 402, 3), (170, 133, 3), (40, 41, 3), (1, 1, 3))
]
TINY = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
TINY |= {"num_attention_heads": 2}


def build(model: str, shape: tuple[int, ...] | None = None, **section: Any) -> Any:
    scheme, _, name = model.partition(":")
    shapes: dict[str, tuple[int | None, ...]] = {"x": shape} if shape else {}
    request = ModelRequest(name=name, codebase_config=section, input_shapes=shapes)
    return model_sources()[scheme](request)[:3]


def assert_same(record: dict[str, Any] | None, transform: Callable[[Any], Any]) -> None:
    """Compare a task's images with those of the library's transform, in steps of 255."""
    assert record is not None
    task: Any = read_task(record)
    step = task.image.scale / np.reshape(task.image.std, (-1, 1, 1))
    for picture in PICTURES:
        (found,) = task.preprocess(picture).values()
        assert (np.abs(found[0] - np.asarray(transform(picture))) / step).max() <= 1


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("resnet10t", None),
        ("resnet18", (1, 3, 64, 48)),
        ("efficientnet_b0", None),
        ("test_vit", None),
        ("mobilenetv3_small_050", None),
        ("mobilevit_xxs", None),
    ],
)
def test_the_task_prepares_images_like_timm(name: str, shape: tuple[int, ...] | None) -> None:
    from timm.data import create_transform, resolve_data_config

    model, image, task = build(f"timm:{name}", shape)
    config = resolve_data_config({"input_size": tuple(image.shape[1:])}, model=model)
    assert_same(task, create_transform(**config, is_training=False))
    assert (len(task["classes"]), task["classes"][0]) == (1000, "tench, Tinca tinca")
    assert model(image).shape[-1] == 1000


@pytest.mark.parametrize("mode", ["center", "squash", "border"])
def test_every_crop_mode_of_timm_is_matched(mode: str) -> None:
    import timm

    size = (3, 64, 48)
    model, _, _ = build("timm:resnet10t", (1, *size))
    model.pretrained_cfg["crop_mode"] = mode
    config = timm.data.resolve_data_config({"input_size": size}, model=model)
    transform = timm.data.create_transform(**config, is_training=False)
    assert_same(timm_task(timm.data, model, size), transform)


def test_changed_timm_models_have_no_class_names_or_no_task() -> None:
    assert build("timm:resnet10t", arguments={"num_classes": 3})[2]["classes"] == []
    assert build("timm:resnet10t", arguments={"num_classes": 0})[2] is None
    assert build("timm:resnet10t", (1, 1, 64, 64))[2] is None
    assert build("timm:resnet10t", arguments={"features_only": True})[2] is None


@pytest.mark.parametrize("name", ["squeezenet1_1", "vit_b_16", "inception_v3", "swin_t"])
def test_the_task_prepares_images_like_torchvision(name: str) -> None:
    from torchvision.models import get_model_weights

    from enginebay_models.tasks import torchvision_task

    weights = get_model_weights(name).DEFAULT
    transform = weights.transforms()
    task = torchvision_task(weights, {}, (3, *2 * transform.crop_size))
    assert_same(task, transform)
    assert task is not None
    assert (len(task["classes"]), task["classes"][0]) == (1000, "tench")


def test_unsuitable_torchvision_models_have_no_task() -> None:
    assert build("torchvision:squeezenet1_1", arguments={"num_classes": 5})[2]["classes"] == []
    assert build("torchvision:lraspp_mobilenet_v3_large")[2] is None
    assert build("torchvision:r3d_18")[2] is None


@pytest.mark.parametrize(
    ("model", "arguments", "processor", "settings"),
    [
        ("ViT", {**TINY, "image_size": 64}, "ViT", {"size": {"height": 64, "width": 64}}),
        (
            "ResNet",
            {"embedding_size": 8, "hidden_sizes": [8], "depths": [1], "layer_type": "basic"},
            "ConvNext",
            {"size": {"shortest_edge": 224}},
        ),
        (
            "MobileNetV2",
            {"image_size": 64},
            "MobileNetV2",
            {"size": {"shortest_edge": 73}, "crop_size": {"height": 64, "width": 64}},
        ),
        (
            "DeiT",
            {**TINY, "image_size": 64},
            "DeiT",
            {
                "size": {"height": 73, "width": 73},
                "crop_size": {"height": 64, "width": 64},
            },
        ),
        (
            "MobileViTV2",
            {"image_size": 64},
            "MobileViT",
            {"size": {"shortest_edge": 56}, "crop_size": {"height": 64, "width": 64}},
        ),
    ],
)
def test_the_task_prepares_images_like_transformers(
    model: str, arguments: dict[str, Any], processor: str, settings: dict[str, Any]
) -> None:
    import transformers

    _, _, task = build(f"transformers:{model}ForImageClassification", arguments=arguments)
    process = getattr(transformers, f"{processor}ImageProcessorPil")(**settings)
    assert_same(task, lambda picture: process(picture, return_tensors="np")["pixel_values"][0])
    assert task["classes"] == ["LABEL_0", "LABEL_1"]


def test_a_detector_of_transformers_has_a_task() -> None:
    arguments = {**TINY, "image_size": [64, 96], "id2label": {0: "cat", 1: "dog", 2: "fox"}}
    model, inputs, task = build("transformers:YolosForObjectDetection", arguments=arguments)
    assert (task["classes"], task["activation"]) == (["cat", "dog", "fox"], "softmax")
    outputs = {name: value.detach().numpy() for name, value in model(**inputs).items()}
    wanted = len(outputs["logits"][0])
    everything: Any = read_task({**task, "threshold": 0})
    assert len(everything.postprocess(outputs, (300, 200))) == wanted


def test_a_multi_class_detector_matches_transformers() -> None:
    import transformers

    from enginebay_models.image_processors import transformers_task

    class RTDetrForObjectDetection:
        config = transformers.RTDetrConfig(num_labels=3)

    task: Any = transformers_task(RTDetrForObjectDetection(), "rt_detr", torch.zeros(1, 3, 64, 96))
    outputs = {"logits": torch.randn(1, 20, 3), "pred_boxes": torch.rand(1, 20, 4) / 4 + 0.25}
    found = read_task({**task, "threshold": 0.3}).postprocess(
        {name: value.numpy() for name, value in outputs.items()}, (96, 64)
    )
    process = transformers.RTDetrImageProcessorPil().post_process_object_detection
    (own,) = process(SimpleNamespace(**outputs), threshold=0.3, target_sizes=[(64, 96)])
    best = own["scores"].tolist()
    assert [box.score for box in found[: len(best)]] == pytest.approx(best)
    assert [box.index for box in found[: len(best)]] == own["labels"].tolist()


def small_resnet(**_: Any) -> Any:
    from torchvision.models.resnet import BasicBlock, ResNet

    return ResNet(BasicBlock, [1, 1, 1, 1])


@pytest.mark.parametrize("family", ["ssdlite", "retinanet", "fcos"])
def test_the_task_suppresses_boxes_like_torchvision(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task on all boxes finds the same objects as the whole detector."""
    name, arguments = "ssdlite320_mobilenet_v3_large", {"num_classes": 7}
    if family != "ssdlite":
        monkeypatch.setattr(f"torchvision.models.detection.{family}.resnet50", small_resnet)
        name, arguments["detections_per_img"] = f"{family}_resnet50_fpn", 50
    model, image, task = build(f"torchvision:{name}", (1, 3, 64, 96), arguments=arguments)
    network = model.network
    with torch.no_grad():
        outputs = {key: value.numpy() for key, value in model(image).items()}
        del network.postprocess_detections
        (wanted,) = network([image[0]])
    assert outputs["scores"].shape == (*outputs["boxes"].shape[:2], 7)
    found = read_task({**task, "threshold": network.score_thresh}).postprocess(outputs, (96, 64))
    assert len(found) == len(wanted["labels"]) >= 20
    assert [box.index for box in found] == wanted["labels"].tolist()
    assert np.allclose([box.score for box in found], wanted["scores"])
    edges = [(box.left, box.top, box.right, box.bottom) for box in found]
    assert np.allclose(edges, wanted["boxes"], atol=1e-3)


def test_ncnn_runs_a_detector_up_to_its_suppression(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchvision.models.detection.fcos.resnet50", small_resnet)
    name, arguments = "torchvision:fcos_resnet50_fpn", {"num_classes": 7}
    model = build(name, (1, 3, 64, 64), arguments=arguments)
    deployment = eb.deploy(model, backend="ncnn", work_dir=tmp_path / "out")
    assert deployment.verdict == "verified"
    with eb.load(tmp_path / "out") as wrapper:
        found = wrapper.predict(PICTURES[0])
    assert found
    assert max(box.right for box in found) <= PICTURES[0].width


def test_torchvision_detectors_specify_their_image_preparation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from enginebay_models import torchvision_detectors

    monkeypatch.setattr(torchvision_detectors, "measure_norms", lambda *_: None)
    _, image, task = build("torchvision:fasterrcnn_mobilenet_v3_large_320_fpn")
    assert image.shape == (1, 3, 320, 640)
    assert (task["classes"][1], len(task["classes"])) == ("person", 91)
    assert "nms" not in task  # its first stage suppresses, and so does the model as a whole
    steps = [
        resize(320, 640, fit="contain", antialias=False),
        crop(320, 640, at="corner", fill=[124, 116, 104]),
    ]
    assert task["image"] == {"steps": steps}
    name = "torchvision:ssdlite320_mobilenet_v3_large"
    _, image, task = build(name, model_type="end2end")
    assert image.shape == (1, 3, 320, 320)
    assert task["image"] == {"steps": [resize(320, 320, antialias=False)]}
    assert "nms" not in task


@pytest.mark.parametrize(
    ("model", "arguments"),
    [
        ("EfficientNetForImageClassification", {"num_block_repeats": [1]}),
        ("bert", TINY),
        ("vit", TINY),
    ],
)
def test_unsuitable_transformers_models_have_no_task(model: str, arguments: dict[str, Any]) -> None:
    if model.startswith("EfficientNet"):
        from transformers import EfficientNetConfig

        from enginebay_models.image_processors import _image_input

        assert _image_input(EfficientNetConfig(), model, 600, 600, detects=False) is None
        return
    assert build(f"transformers:{model}", arguments=arguments)[2] is None


def test_a_folder_specifies_its_classes_and_preparation(tmp_path: Path) -> None:
    import transformers

    arguments = {**TINY, "image_size": 32, "id2label": {0: "cat", 1: "dog"}}
    model, _, _ = build("transformers:ViTForImageClassification", arguments=arguments)
    model.save_pretrained(tmp_path / "mine")
    processor = transformers.ViTImageProcessorPil(image_mean=[0.1, 0.2, 0.3], resample=3)
    processor.save_pretrained(tmp_path / "mine")
    _, _, task = build(f"transformers:{tmp_path}/mine")
    assert task["classes"] == ["cat", "dog"]
    assert task["image"]["mean"] == [0.1, 0.2, 0.3]
    assert task["image"]["steps"] == [resize(32, 32, interpolation="bicubic")]


def test_a_model_by_its_name_predicts_classes_of_an_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    PICTURES[0].save("noise.png")
    line = ("deploy", "timm:resnet10t", "--backend", "onnxruntime", "--work-dir", "out")
    ran = call_command(capfd, *line, "--input", "x=1x3x64x48", "--probes", "0")
    assert ran.code == 0, ran.err
    ran = call_command(capfd, "run", "out", "--image", "noise.png", "--json")
    assert json.loads(ran.out)["error"]["message"].endswith(
        "are random (seed 0): predictions are meaningless"
    )
    words = ("run", "out", "--image", "noise.png", "--allow-random-weights", "--json")
    ran = call_command(capfd, *words)
    (seen,) = json.loads(ran.out)["images"]
    assert len(seen["found"]) == 5
    assert all(len(found["name"]) > 2 for found in seen["found"])
