"""The package's metadata and its errors: these tests run without mmpretrain."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import pytest

import enginebay as eb
import enginebay_vision as vision
from enginebay.authors.sources import read_task
from enginebay.environment import install_command
from enginebay.hooks import ModelRequest, RewritersRequest
from enginebay_mmpretrain import plugin
from enginebay_mmpretrain.model_config import read_image_size
from enginebay_mmpretrain.task import pipeline_steps
from enginebay_testing.command_runs import call_command

if TYPE_CHECKING:
    from pathlib import Path

INSTALL = install_command("enginebay-mmpretrain[mmpretrain]")


def fault(name: str = "resnet18_8xb32_in1k", **section: Any) -> tuple[str, str | None]:
    with pytest.raises(eb.EnginebayError) as caught:
        plugin.model_sources()["mmpretrain"](ModelRequest(name=name, codebase_config=section))
    return str(caught.value), caught.value.hint


def test_the_distribution_announces_one_plugin() -> None:
    (found,) = entry_points(group="enginebay.plugins", name="mmpretrain")
    assert found.value == "enginebay_mmpretrain.plugin"


def test_a_missing_library_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mmpretrain", None)
    message = "a model 'mmpretrain:NAME' requires mmpretrain, which is not installed"
    assert fault() == (message, INSTALL)


def test_the_command_line_reports_a_missing_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "mmpretrain", None)
    (tmp_path / "mine.py").write_text("codebase_config = dict(type='mmpretrain')")
    (tmp_path / "old.py").write_text("codebase_config = dict(type='mmcls')")
    configs = (("resnet18", "--config", name) for name in ("mine.py", "old.py"))
    for words in (("mmpretrain:resnet18",), ("mmcls:resnet18",), *configs):
        ran = call_command(capfd, "deploy", *words, "--backend", "onnxruntime")
        assert ran.code == 3
        assert ran.err == (
            "error: a model 'mmpretrain:NAME' requires mmpretrain, which is not installed\n"
            f"hint: {INSTALL}\n"
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.py", "old.py"]


@pytest.mark.parametrize(
    ("task", "hint"),
    [
        ("ObjectDetection", "set task='Classification', or remove task"),
        ("classification", "did you mean 'Classification'?"),
    ],
)
def test_another_task_is_refused(task: str, hint: str) -> None:
    message = (
        f"codebase_config.task: '{task}' is not a task of mmpretrain; available: Classification"
    )
    assert fault(type="mmpretrain", task=task) == (message, hint)


def test_a_misspelled_key_is_refused() -> None:
    message, hint = fault(checkpont="a.pth")
    assert message.startswith("codebase_config: unknown key 'checkpont'; available: type")
    assert hint == "did you mean 'checkpoint'?"


RESIZE, EDGE = {"type": "Resize", "scale": (384, 512)}, {"type": "ResizeEdge", "scale": 256}
CROP, PACK = {"type": "CenterCrop", "crop_size": 224}, {"type": "PackInputs"}


@pytest.mark.parametrize(
    ("pipeline", "backbone", "size"),
    [
        ([EDGE, CROP, PACK], {}, (3, 224, 224)),
        ([EDGE, CROP], {"img_size": 384, "in_channels": 1}, (1, 224, 224)),
        ([RESIZE, PACK], {}, (3, 512, 384)),
        ([{"type": "Resize", "scale": 384}], {}, (3, 384, 384)),
        ([{"type": "EfficientNetCenterCrop", "crop_size": 240}, PACK], {}, (3, 240, 240)),
        ([PACK], {"img_size": 196}, (3, 196, 196)),
        ([EDGE, PACK], {}, None),
        (None, {}, None),
    ],
)
def test_the_image_size_is_read_from_the_config(
    pipeline: Any, backbone: dict[str, Any], size: tuple[int, int, int] | None
) -> None:
    config = {"model": {"backbone": backbone}, "test_pipeline": pipeline}
    assert read_image_size(config) == size


def test_other_models_get_no_rewriter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "enginebay_mmpretrain.classifier", raising=False)
    request = RewritersRequest(backend="onnxruntime", ir="onnx")
    assert list(plugin.rewriters(request)) == []
    import enginebay_mmpretrain.classifier  # noqa: F401  # as building a model does

    (only,) = plugin.rewriters(request)
    assert only.name == "enginebay_mmpretrain.classifier.Classifier"


@pytest.mark.parametrize(
    ("pipeline", "steps"),
    [
        (
            [
                {"type": "LoadImageFromFile"},
                {"type": "ResizeEdge", "scale": 256, "edge": "short", "backend": "pillow"},
                {"type": "CenterCrop", "crop_size": 224},
                {"type": "PackInputs"},
            ],
            (vision.Resize(256, 256, fit="cover"), vision.Crop(224, 224)),
        ),
        (
            [{"type": "Resize", "scale": (96, 64)}],
            (vision.Resize(224, 224, antialias=False),),
        ),
        ([{"type": "Resize", "scale": 224, "interpolation": "bicubic"}], None),
        ([{"type": "Resize", "scale": 224, "keep_ratio": True}], None),
        ([{"type": "EfficientNetCenterCrop", "crop_size": 224}], None),
    ],
)
def test_a_test_pipeline_becomes_steps(pipeline: list[dict[str, Any]], steps: Any) -> None:
    config = {"model": {"backbone": {}}, "test_pipeline": pipeline}
    found = pipeline_steps(config, (3, 224, 224))
    if steps is None:
        assert found is None
    else:
        task: Any = read_task({"type": "image-classification", "image": {"steps": found}})
        assert task.image.steps == steps
    assert pipeline_steps(config, (1, 224, 224)) is None
