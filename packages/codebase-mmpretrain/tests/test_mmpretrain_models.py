"""Models of mmpretrain by name and by config: building, and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mmpretrain
import pytest
import torch

import enginebay as eb
from enginebay.authors.sources import read_task
from enginebay.hooks import ModelRequest
from enginebay_mmpretrain.library import MMPRETRAIN
from enginebay_mmpretrain.plugin import model_sources
from enginebay_testing.command_runs import call_command

if TYPE_CHECKING:
    from pathlib import Path

#: mmengine leaves the copies of configs that it makes to the garbage collector, open.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

RESNET = "resnet18_8xb32_in1k"
#: A user's config of a small classifier.
CONFIG = """\
model = dict(
    type='ImageClassifier',
    backbone=dict(type='{backbone}', {arguments}),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='{head}', num_classes=5, in_channels={channels}))
test_pipeline = [dict(type='LoadImageFromFile'), dict(type='Resize', scale=128)]
"""


def build(name: str, shapes: dict[str, tuple[int, ...]] | None = None, **section: Any) -> Any:
    request = ModelRequest(name=name, codebase_config=section, input_shapes=shapes or {})
    return model_sources()["mmpretrain"](request)[:2]


def with_task(name: str, shapes: dict[str, tuple[int, ...]] | None = None) -> tuple[Any, Any]:
    request = ModelRequest(name=name, input_shapes=shapes or {})
    model, _, task, _ = model_sources()["mmpretrain"](request)
    return model, task and read_task(task)


def fault(name: str = RESNET, **section: Any) -> tuple[str, str | None]:
    with pytest.raises(eb.EnginebayError) as caught:
        build(name, **section)
    return str(caught.value), caught.value.hint


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def write(
        name: str = "mine.py",
        *,
        backbone: str = "ResNet",
        arguments: str = "depth=18, num_stages=2, strides=(1, 2), dilations=(1, 1), "
        "out_indices=(1,)",
        head: str = "LinearClsHead",
        channels: int = 128,
    ) -> str:
        parts = {"backbone": backbone, "arguments": arguments, "head": head, "channels": channels}
        (tmp_path / name).write_text(CONFIG.format(**parts))
        return name

    return write


def deployed(model: torch.nn.Module, image: torch.Tensor) -> torch.Tensor:
    """Return the scores of the rewritten model, which an engine runs."""
    with eb.rewrite(model, backend=None) as rewriting, torch.no_grad():
        scores: torch.Tensor = rewriting.model(image)
        assert type(rewriting.model).__name__ == "Deployed"
    return scores


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        (RESNET, (1, 3, 224, 224)),
        ("efficientnet-b1_3rdparty_8xb32_in1k", (1, 3, 240, 240)),
        ("inception-v3_3rdparty_8xb32_in1k", (1, 3, 299, 299)),
    ],
)
def test_a_model_comes_with_an_image_of_its_size(name: str, shape: tuple[int, ...]) -> None:
    model, image = build(name)
    assert tuple(image.shape) == shape
    assert not model.training
    with torch.no_grad():
        scores = model(image)
    assert scores.shape == (1, 1000)
    assert torch.allclose(scores.sum(), torch.ones(()))


def test_random_weights_are_reproducible_and_tell_images_apart() -> None:
    """MobileNet-V2 as mmpretrain builds it returns the same scores for any two images."""
    name = "mobilenet-v2_8xb32_in1k"
    (first, image), (second, again) = build(name), build(name)
    assert torch.equal(image, again)
    flipped = image.flip(3)
    with torch.no_grad():
        assert torch.equal(first(image), second(image))
        assert _difference(first(image), first(flipped)) > 1e-2
        first.network = mmpretrain.get_model(name)
        assert _difference(first(image), first(flipped)) < 1e-5


def _difference(scores: torch.Tensor, others: torch.Tensor) -> float:
    return float(((scores - others).abs() / scores).max())


@pytest.mark.parametrize(
    ("backbone", "arguments", "head", "channels"),
    [
        ("RepVGG", "arch='A0', out_indices=(3,)", "LinearClsHead", 1280),
        ("MobileOne", "arch='s0', out_indices=(3,)", "LinearClsHead", 1024),
        ("ResNet", "depth=18", "MultiLabelLinearClsHead", 512),
    ],
)
def test_the_rewritten_model_returns_the_same_scores(
    write: Any, backbone: str, arguments: str, head: str, channels: int
) -> None:
    name = write(backbone=backbone, arguments=arguments, head=head, channels=channels)
    model, _ = build(name)
    images = torch.randn(3, 3, 128, 128)
    with torch.no_grad():
        wanted = model(images)
    assert torch.allclose(deployed(model, images), wanted, rtol=1e-3, atol=1e-6)
    assert head.startswith("Multi") is not torch.allclose(wanted.sum(1), torch.ones(3))
    if hasattr(model.network.backbone, "switch_to_deploy"):
        assert not model.network.backbone.deploy  # the reference is left as it is


@pytest.mark.parametrize("name", ["levit-128s_3rdparty_in1k", "conformer-tiny-p16_3rdparty_in1k"])
def test_heads_with_two_branches_return_the_same_scores(name: str) -> None:
    model, image = build(name)
    with torch.no_grad():
        wanted = model(image)
    assert torch.allclose(deployed(model, image), wanted, rtol=1e-3, atol=1e-6)


def test_a_swin_takes_any_batch(tmp_path: Path) -> None:
    from onnxruntime import InferenceSession

    model, image = build("swin-tiny_16xb64_in1k")
    exported = eb.export(
        model,
        image,
        dynamic={"input": {0: "batch"}},
        path=tmp_path / "swin.onnx",
        options=eb.ExportOptions(exporter="torchscript"),
    )
    images = torch.cat((image, image.flip(3), image.flip(2)))
    (scores,) = InferenceSession(str(exported.path)).run(None, {"input": images.numpy()})
    with torch.no_grad():
        assert torch.allclose(torch.from_numpy(scores), model(images), rtol=1e-4)


def test_models_are_built_for_the_requested_size() -> None:
    model, image = build("deit-tiny_4xb256_in1k", {"input": (1, 3, 64, 96)})
    assert image.shape == (1, 3, 64, 96)
    assert model.network.backbone.pos_embed.shape == (1, 1 + 4 * 6, 192)
    assert model(image).shape == (1, 1000)
    model, image = build(RESNET, {"": (1, 1, 32, 32)})
    assert model(image).shape == (1, 1000)


def test_a_config_without_a_size_has_no_example_image() -> None:
    model, image = build("resnet18_8xb16_cifar10")
    assert isinstance(model, torch.nn.Module)
    assert image is None
    _, image = build("resnet18_8xb16_cifar10", {"input": (1, 3, 32, 32)})
    assert image.shape == (1, 3, 32, 32)


def test_arguments_are_merged_into_the_model() -> None:
    model, image = build(RESNET, arguments={"head": {"num_classes": 7}})
    assert model(image).shape == (1, 7)


def test_a_local_config_builds_a_model(write: Any) -> None:
    model, image = build(write())
    assert image.shape == (1, 3, 128, 128)
    assert model(image).shape == (1, 5)


def test_a_training_checkpoint_loads_if_it_has_plain_values_only(
    write: Any, tmp_path: Path
) -> None:
    model, image = build(write())
    torch.nn.init.ones_(model.network.head.fc.bias[:1])
    state = {"meta": {"epoch": 3}, "state_dict": model.network.state_dict()}
    torch.save(state, tmp_path / "epoch_3.pth")
    loaded, _ = build("mine.py", checkpoint="epoch_3.pth")
    assert torch.equal(loaded(image), model(image))
    from mmengine.logging import HistoryBuffer

    torch.save({**state, "message_hub": {"loss": HistoryBuffer()}}, tmp_path / "latest.pth")
    message, hint = fault("mine.py", checkpoint="latest.pth")
    assert message.startswith("'latest.pth' cannot be read as weights: Weights only load failed")
    assert hint is not None
    assert hint.startswith("write the file by torch.save(model.state_dict(), FILE)")


def test_published_weights_are_downloaded_and_checked(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hashlib import sha256

    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "cache"))
    model, image = build(write())
    torch.save({"state_dict": model.network.state_dict()}, tmp_path / "a.pth")
    digits = sha256((tmp_path / "a.pth").read_bytes()).hexdigest()[:8]
    address = (tmp_path / "a.pth").rename(tmp_path / f"net-{digits}.pth").as_uri()
    text = (tmp_path / "mine.py").read_text()
    (tmp_path / "mine.py").write_text(f"{text}load_from = '{address}'\n")
    loaded, _ = build("mine.py", pretrained=True)
    assert torch.equal(loaded(image), model(image))
    (tmp_path / f"net-{digits}.pth").rename(tmp_path / "net-00000000.pth")
    wrong = address.replace(digits, "00000000")
    (tmp_path / "mine.py").write_text(f"{text}load_from = '{wrong}'\n")
    message, _ = fault("mine.py", pretrained=True)
    assert message.startswith(f"the weights at {wrong} cannot be downloaded: invalid hash value")


def test_missing_published_weights_are_reported(write: Any) -> None:
    message, hint = fault(write(), pretrained=True)
    assert message == "'mine.py' has no published weights"
    assert hint == "set codebase_config.checkpoint to a local file, or use random weights"


WANTED = (
    "expected a classifier of mmpretrain: model = dict(type='ImageClassifier', backbone=…, head=…)"
)


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        (
            "Resnt18_8xb32_in1k",
            "mmpretrain 1.3.6 has no model 'Resnt18_8xb32_in1k'",
            "similar names: resnet18_8xb32_in1k, resnet152_8xb32_in1k, resnet101_8xb32_in1k",
        ),
        (
            "resnet18_8xb32_in1",
            "mmpretrain 1.3.6 has no model 'resnet18_8xb32_in1'",
            "similar names: resnet18_8xb32_in1k",
        ),
        ("§§", "mmpretrain 1.3.6 has no model '§§'", "mmpretrain.list_models() returns all names"),
        ("none.py", "no file 'none.py'", None),
        (
            "blip-base_3rdparty_caption",
            "'blip-base_3rdparty_caption' is of type 'BlipCaption', not a classifier",
            WANTED,
        ),
        (
            "mae_vit-base-p16_8xb512-amp-coslr-300e_in1k",
            "'mae_vit-base-p16_8xb512-amp-coslr-300e_in1k' is of type 'MAE', not a classifier",
            WANTED,
        ),
        (
            "vit-small-p14_dinov2-pre_3rdparty",
            "'vit-small-p14_dinov2-pre_3rdparty' is a backbone without a head",
            WANTED,
        ),
        (
            "swinv2-base-w12_3rdparty_in21k-192px",
            (
                "the config of 'swinv2-base-w12_3rdparty_in21k-192px' cannot be loaded: "
                "KeyError: 'test_pipeline'"
            ),
            None,
        ),
    ],
)
def test_unknown_and_unsuitable_models_are_refused(
    name: str, message: str, hint: str | None
) -> None:
    assert fault(name) == (message, hint)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model = dict(type='FasterRCNN')", "'bad.py' is of type 'FasterRCNN', not a classifier"),
        (
            "model = dict(type='mmdet.RTMDet')",
            "'bad.py' is of type 'mmdet.RTMDet', not a classifier",
        ),
        ("onnx_config = dict(type='onnx')", "'bad.py' contains no model"),
        ("model = 3", "'bad.py' contains no model"),
    ],
)
def test_configs_without_a_classifier_are_refused(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.py").write_text(text)
    assert fault("bad.py") == (message, WANTED)


def test_a_config_that_does_not_load_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.py").write_text("model = 1 / 0\n")
    message, _ = fault("bad.py")
    assert message == "the config of 'bad.py' cannot be loaded: ZeroDivisionError: division by zero"


def test_the_command_line_deploys_with_a_config_of_mmdeploy(
    write: Any, configs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write("small.py")
    config = str(configs / "classification_onnxruntime_static.py")
    ran = call_command(capfd, "deploy", "small.py", "--config", config)
    assert ran.code == 0, ran.err
    assert "verified" in ran.out
    assert "never fired" not in ran.out
    assert (tmp_path / "small-onnxruntime" / "end2end.onnx").is_file()
    ran = call_command(capfd, "export", "mmpretrain:small.py")
    assert ran.code == 0, ran.err
    assert (tmp_path / "small.onnx").is_file()
    ran = call_command(capfd, "deploy", "resnet18", "--config", config)
    assert ran.code == 2
    assert ran.err.startswith(
        "error: mmpretrain 1.3.6 has no model 'resnet18'\nhint: similar names: resnet18_8xb"
    )
    (tmp_path / "mine.py").write_text(
        f"_base_ = {config!r}\ncodebase_config = dict(checkpoint='none.pth')"
    )
    ran = call_command(capfd, "deploy", "small.py", "--config", "mine.py", "--work-dir", "two")
    assert (ran.code, ran.err) == (
        2,
        "error: no weights file 'none.pth'\nhint: pass --weights FILE\n",
    )


@pytest.mark.parametrize(
    "name",
    [
        RESNET,  # Pillow, bilinear, RGB
        "deit-tiny_4xb256_in1k",  # Pillow, bicubic
        "densenet121_3rdparty_in1k",  # OpenCV, bilinear
        "convnext-tiny_in21k-pre_3rdparty_in1k-384px",  # Pillow, to one size
    ],
)
def test_the_task_prepares_images_like_the_test_pipeline(name: str) -> None:
    import numpy as np
    from mmpretrain.registry import TRANSFORMS
    from PIL import Image

    model, task = with_task(name)
    config = MMPRETRAIN.read_config(name)
    steps = [TRANSFORMS.build(settings) for settings in config.test_pipeline[1:]]
    noise = np.random.default_rng(0)
    for size in ((301, 402, 3), (170, 133, 3)):
        pixels = noise.integers(0, 256, size, np.uint8)
        packed: Any = {"img": pixels[..., ::-1].copy(), "img_shape": size[:2]}
        for step in steps:
            packed = step(packed)
        batch = {name: [value] for name, value in packed.items()}
        wanted = model.network.data_preprocessor(batch)["inputs"].numpy()
        (found,) = task.preprocess(Image.fromarray(pixels)).values()
        assert np.abs(found - wanted).max() <= 1.01 / min(task.image.std)
    assert (len(task.classes), task.classes[0]) == (1000, "tench, Tinca tinca")


def test_the_task_follows_the_requested_size_and_classes(write: Any) -> None:
    _, task = with_task(RESNET, {"input": (1, 3, 112, 112)})
    assert [(step.height, step.width) for step in task.image.steps] == [(128, 128), (112, 112)]
    _, own = with_task(write())
    assert (own.classes, own.activation) == ((), "none")
    assert with_task("efficientnet-b0_3rdparty_8xb32_in1k")[1] is None


def test_classifiers_and_transformers_5_work_in_one_process() -> None:
    """With pycocotools, mmpretrain would import multimodal models, for which 5 is too new."""
    pytest.importorskip("pycocotools", reason="pycocotools is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    assert int(transformers.__version__.partition(".")[0]) >= 5
    tiny = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    bert = transformers.BertModel(transformers.BertConfig(**tiny)).eval()
    model, image = build(RESNET)
    assert model(image).shape == (1, 1000)
    assert bert(torch.ones(1, 3, dtype=torch.int64)).last_hidden_state.shape == (1, 3, 8)
