"""The package's metadata and its errors: these tests run without mmdet."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import enginebay as eb
from enginebay.authors.sources import read_task
from enginebay.environment import install_command
from enginebay.hooks import ModelRequest, RewritersRequest
from enginebay_mmdet import plugin
from enginebay_mmdet.source import read_image_size, read_mask_form
from enginebay_mmdet.task import make_task
from enginebay_testing.command_runs import call_command

if TYPE_CHECKING:
    from pathlib import Path

INSTALL = install_command("enginebay-mmdet[mmdet]")


def fault(name: str = "retinanet_r18_fpn_1x_coco", **section: Any) -> tuple[str, str | None]:
    with pytest.raises(eb.EnginebayError) as caught:
        plugin.model_sources()["mmdet"](ModelRequest(name=name, codebase_config=section))
    return str(caught.value), caught.value.hint


def test_the_distribution_announces_one_plugin() -> None:
    (found,) = entry_points(group="enginebay.plugins", name="mmdet")
    assert found.value == "enginebay_mmdet.plugin"


def test_the_command_line_reports_a_missing_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "mmdet", None)
    (tmp_path / "mine.py").write_text("codebase_config = dict(type='mmdet')")
    for words in (("mmdet:retinanet",), ("retinanet", "--config", "mine.py")):
        ran = call_command(capfd, "deploy", *words, "--backend", "onnxruntime")
        assert ran.code == 3
        assert ran.err == (
            f"error: a model 'mmdet:NAME' requires mmdet, which is not installed\nhint: {INSTALL}\n"
        )
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


@pytest.mark.parametrize(
    ("task", "hint"),
    [
        ("Classification", "set task='ObjectDetection', or remove task"),
        ("objectdetection", "did you mean 'ObjectDetection'?"),
    ],
)
def test_another_task_is_refused(task: str, hint: str) -> None:
    message = f"codebase_config.task: '{task}' is not a task of mmdet; available: ObjectDetection"
    assert fault(type="mmdet", task=task) == (message, hint)


def test_a_misspelled_key_is_refused() -> None:
    message, hint = fault(model_typ="end2end")
    assert message.startswith("codebase_config: unknown key 'model_typ'; available: type")
    assert hint is None or "model_type" in hint


RATIO = {"type": "Resize", "scale": (1333, 800), "keep_ratio": True}


@pytest.mark.parametrize(
    ("pipeline", "preprocessor", "size"),
    [
        ([RATIO], {}, (3, 800, 1344)),
        ([RATIO], {"pad_size_divisor": 1}, (3, 800, 1333)),
        ([{"type": "LoadImageFromFile"}], {}, (3, 640, 640)),
    ],
)
def test_the_image_size_is_read_from_the_config(
    pipeline: Any, preprocessor: Any, size: tuple[int, int, int]
) -> None:
    model = {"data_preprocessor": preprocessor}
    assert read_image_size({"model": model, "test_pipeline": pipeline}) == size


class Config(dict[str, Any]):
    """A config whose keys are attributes too, as mmengine's are."""

    __getattr__ = dict.__getitem__


class RTMDetInsHead:
    pass


class RTMDetInsSepBNHead(RTMDetInsHead):
    pass


@pytest.mark.parametrize(
    ("network", "form", "threshold"),
    [
        (SimpleNamespace(roi_head=SimpleNamespace(with_mask=True)), "box", 0.4),
        (SimpleNamespace(roi_head=SimpleNamespace(with_mask=True), binary=-1), "box", 0.5),
        (SimpleNamespace(bbox_head=RTMDetInsSepBNHead()), "image", 0.5),
        (SimpleNamespace(bbox_head=object()), "", None),
        (SimpleNamespace(roi_head=SimpleNamespace(with_mask=False)), "", None),
    ],
)
def test_the_task_of_a_detector_with_masks_is_instance_segmentation(
    network: Any, form: str, threshold: float | None
) -> None:
    test = Config(rcnn=Config(mask_thr_binary=getattr(network, "binary", 0.4)))
    model = Config(test_cfg=test, roi_head={"bbox_head": {"num_classes": 1}})
    data = {"dataset": {"metainfo": {"classes": ["cat"]}}}
    assert read_mask_form(network) == form
    fields = make_task(
        Config(model=model, test_dataloader=data), (3, 64, 96), candidates=False, masks=form
    )
    task: Any = read_task(fields)
    kind = "instance-segmentation" if form else "object-detection"
    assert (fields["type"], task.classes, task.labels) == (kind, ("cat",), "labels")
    if form:
        assert (task.masks, task.mask_form, task.mask_threshold) == ("masks", form, threshold)


def test_other_models_get_no_rewriters(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("detector", "candidates"):
        monkeypatch.delitem(sys.modules, f"enginebay_mmdet.{name}", raising=False)
    request = RewritersRequest(backend="onnxruntime", ir="onnx")
    assert list(plugin.rewriters(request)) == []


def test_config_check_refuses_the_keys_that_deploy_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mmdet", None)
    config = tmp_path / "mine.py"
    keys = "sigma=0.5, iou_threshold=0.5"
    config.write_text(f"codebase_config = dict(type='mmdet', post_processing=dict({keys}))")
    ran = call_command(capfd, "config", "check", str(config))
    assert ran.code == 1
    problem = "codebase_config.post_processing: 'sigma' is not a known key"
    assert ran.out.startswith(f"{config}:1:1: {problem}; available: ")
    config.write_text("codebase_config = dict(type='mmdet', model_type='end2edn')")
    assert (
        "'end2edn' is not a model_type of mmdet"
        in call_command(capfd, "config", "check", str(config)).out
    )
    config.write_text("codebase_config = dict(type='mmdet', task='ObjectDetection')")
    assert call_command(capfd, "config", "check", str(config)).code == 0
