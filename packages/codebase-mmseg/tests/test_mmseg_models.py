"""Segmenters of mmseg as they are deployed, without an engine, and refusals."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mmseg
import numpy as np
import pytest
import torch

import enginebay as eb
from enginebay.authors.sources import read_task

from .conftest import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable

#: The configs in mmseg's wheel.
CONFIGS = Path(mmseg.__path__[0]) / ".mim" / "configs"
STDC = "stdc1_4xb12-80k_cityscapes-512x1024"
UNET = "unet-s5-d16_fcn_4xb4-40k_drive-64x64"
SEGFORMER = "segformer_mit-b0_8xb2-160k_ade20k-512x512"


@pytest.mark.parametrize("name", [*SMALL, "danet_r50-d8_4xb4-80k_ade20k-512x512"])
def test_the_classes_are_those_of_mmseg(build: Callable[..., Any], name: str) -> None:
    model, image, _ = build(name)
    images = torch.cat([image, torch.randn_like(image)])
    with torch.no_grad():
        classes = model(images)
        wanted = torch.stack([sample.pred_sem_seg.data for sample in model.network.predict(images)])
    assert classes.dtype == torch.int64
    assert torch.equal(classes, wanted)
    assert len(classes.unique()) > 1
    assert not torch.equal(classes[0], classes[1])  # random weights tell images apart


def test_without_argmax_the_scores_are_returned(build: Callable[..., Any]) -> None:
    model, image, task = build(SEGFORMER, with_argmax=False)
    (classes, _, _) = build(SEGFORMER)
    with torch.no_grad():
        scores = model(image)
        assert scores.shape == (1, 150, 64, 64)
        assert torch.equal(scores.argmax(1, keepdim=True), classes(image))
    assert task["form"] == "scores"


def test_one_score_for_each_pixel_has_a_threshold(build: Callable[..., Any]) -> None:
    head = {"num_classes": 2, "out_channels": 1, "threshold": 0.4}
    head |= {"loss_decode": {"use_sigmoid": True}}
    arguments = {**SMALL[UNET], "decode_head": {**SMALL[UNET]["decode_head"], **head}}
    model, image, _ = build(UNET, arguments=arguments)
    with torch.no_grad():
        (sample,) = model.network.predict(image)
        assert torch.equal(model(image)[0], sample.pred_sem_seg.data.long())


def test_the_task_prepares_images_and_reads_masks_like_mmseg(build: Callable[..., Any]) -> None:
    task = read_task(build(SEGFORMER)[2])
    assert (len(task.classes), task.classes[0]) == (150, "wall")
    assert (task.form, task.from_one) == ("classes", True)
    image = task.image
    assert (image.channels, image.scale, image.mean) == ("RGB", 1, (123.675, 116.28, 103.53))
    assert [(step.height, step.width) for step in image.steps] == [(64, 64)]
    task = read_task({**build(STDC)[2], "output": "output"})
    assert (task.classes[0], task.from_one) == ("road", False)
    classes = np.zeros((1, 1, 64, 64), np.int64)
    classes[..., 32:] = 13
    found = task.postprocess({"output": classes}, (100, 50))
    assert [(segment.name, segment.share) for segment in found] == [("road", 0.5), ("car", 0.5)]


def test_a_config_of_your_own_names_its_classes(build: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        f"_base_ = {str(CONFIGS / 'unet' / f'{UNET}.py')!r}\n"
        "test_dataloader = dict(dataset=dict(metainfo=dict(classes=('field', 'road'))))\n"
    )
    _, _, task = build(str(path), arguments=SMALL[UNET])
    assert task["classes"] == ["field", "road"]
    head = {**SMALL[UNET]["decode_head"], "num_classes": 3}
    _, _, task = build(str(path), arguments={**SMALL[UNET], "decode_head": head})
    assert task["classes"] == []


def test_images_larger_than_a_window_of_the_tests_are_told(
    build: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    build(UNET)
    assert not caplog.messages
    build(UNET, 96)
    (message,) = caplog.messages
    assert message == (
        "mmseg's test_cfg cuts an image of 96x96 into windows of 64x64; the deployed model "
        "classifies the whole image, as in MMDeploy: --input input=1x3x64x64 is one window"
    )


def fault(build: Callable[..., Any], name: str, *size: int, **section: Any) -> tuple[str, Any]:
    with pytest.raises(eb.EnginebayError) as caught:
        build(name, *size, **section)
    return str(caught.value), caught.value.hint


WANTED = (
    "expected a segmenter of mmseg: model = dict(type='EncoderDecoder', backbone=…, decode_head=…)"
)


def test_unknown_names_and_published_weights_are_refused(build: Callable[..., Any]) -> None:
    message, hint = fault(build, "stdc1")
    assert message == "mmseg 1.4.2 has no model 'stdc1'"
    assert hint == (
        "similar names: stdc1_4xb12-80k_cityscapes-512x1024, "
        "stdc1_in1k-pre_4xb12-80k_cityscapes-512x1024"
    )
    assert fault(build, "none.py") == ("no file 'none.py'", None)
    message, hint = fault(build, STDC, pretrained=True)
    assert message == "mmseg's published weights are not downloaded automatically"
    assert hint.endswith("--weights FILE")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model = dict(type='ResNet')", "'bad.py' is of type 'ResNet', not a segmenter"),
        (
            "model = dict(type='DepthEstimator')",
            "'bad.py' is of type 'DepthEstimator', not a segmenter",
        ),
        ("model = dict(type='mmx.Net')", "'bad.py' is of type 'mmx.Net', not a segmenter"),
        ("onnx_config = dict(type='onnx')", "'bad.py' contains no model"),
    ],
)
def test_configs_without_a_segmenter_are_refused(
    build: Callable[..., Any], text: str, message: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.py").write_text(text)
    assert fault(build, "bad.py") == (message, WANTED)


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_a_config_of_which_the_library_lacks_a_part_is_refused(
    build: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.py").write_text(
        "model = dict(type='EncoderDecoder', backbone=dict(type='GoneNet'), decode_head=dict())"
    )
    message, _ = fault(build, "old.py")
    assert message.startswith("'old.py' cannot be built: KeyError: ")
    assert "GoneNet" in message
    message, _ = fault(build, "psanet_r50-d8_4xb4-80k_ade20k-512x512")
    assert message.startswith("the model requires mmcv's operator 'psamask_forward', which is not")
    (tmp_path / "old.py").write_text("_base_ = 'gone.py'")
    message, _ = fault(build, "old.py")
    assert message.startswith("the config of 'old.py' cannot be loaded: FileNotFoundError: ")
    gc.collect()  # mmengine leaves its copy of such a config open


def test_arguments_that_do_not_fit_are_refused(build: Callable[..., Any]) -> None:
    name = "ocrnet_hr18_4xb4-80k_ade20k-512x512"
    message, hint = fault(build, name, arguments={"decode_head": {"channels": 16}})
    assert message.startswith(f"codebase_config.arguments do not fit the model of '{name}': list")
    assert hint.endswith("arguments=dict(head={'1': …})")
    message, _ = fault(build, STDC, arguments={"decode_head": {"num_clases": 3}})
    assert message.startswith(f"'{STDC}' cannot be built: TypeError: ")
    assert "'num_clases'" in message
    arguments = {"decode_head": {str(index): {"num_classes": 3} for index in (0, 1)}}
    model, image, _ = build(name, arguments=arguments)
    assert model(image).max() < 3


def test_a_size_that_the_network_cannot_take_is_refused(build: Callable[..., Any]) -> None:
    name = "mobilenet-v3-d8_lraspp_4xb4-320k_cityscapes-512x1024"
    message, hint = fault(build, name)
    assert message.startswith(f"'{name}' is not for images of 3x64x64: RuntimeError: Given input")
    assert hint.startswith("--input sets another size")


def test_weights_of_another_number_of_classes_are_refused(
    build: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model, image, _ = build(SEGFORMER)
    meta = {"dataset_meta": {"classes": ("a", "b")}}
    torch.save({"state_dict": model.network.state_dict(), "meta": meta}, "ade20k.pth")
    loaded, _, _ = build(SEGFORMER, checkpoint="ade20k.pth")
    assert torch.equal(loaded(image), model(image))
    head = {**SMALL[SEGFORMER]["decode_head"], "num_classes": 19}
    arguments = {**SMALL[SEGFORMER], "decode_head": head}
    message, _ = fault(build, SEGFORMER, checkpoint="ade20k.pth", arguments=arguments)
    assert message.startswith("'ade20k.pth' does not fit EncoderDecoder: ")
    assert "decode_head.conv_seg.weight" in message
    assert "[150, 16, 1, 1]" in message
