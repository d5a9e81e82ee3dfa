"""The package's metadata and its errors: these tests run without mmseg."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import pytest

import enginebay as eb
from enginebay.environment import install_command
from enginebay.hooks import ModelRequest, RewritersRequest
from enginebay_mmseg import plugin
from enginebay_mmseg.source import read_image_size
from enginebay_testing.command_runs import call_command

if TYPE_CHECKING:
    from pathlib import Path

INSTALL = install_command("enginebay-mmseg[mmseg]")


def fault(name: str = "stdc1_4xb12-80k_cityscapes", **section: Any) -> tuple[str, str | None]:
    with pytest.raises(eb.EnginebayError) as caught:
        plugin.model_sources()["mmseg"](ModelRequest(name=name, codebase_config=section))
    return str(caught.value), caught.value.hint


def test_the_distribution_announces_one_plugin() -> None:
    (found,) = entry_points(group="enginebay.plugins", name="mmseg")
    assert found.value == "enginebay_mmseg.plugin"


def test_the_command_line_reports_a_missing_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "mmseg", None)
    (tmp_path / "mine.py").write_text("codebase_config = dict(type='mmseg', task='Segmentation')")
    for words in (("mmseg:stdc1",), ("stdc1", "--config", "mine.py")):
        ran = call_command(capfd, "deploy", *words, "--backend", "onnxruntime")
        assert ran.code == 3
        assert ran.err == (
            f"error: a model 'mmseg:NAME' requires mmseg, which is not installed\nhint: {INSTALL}\n"
        )
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


@pytest.mark.parametrize(
    ("task", "hint"),
    [
        ("ObjectDetection", "set task='Segmentation', or remove task"),
        ("segmentation", "did you mean 'Segmentation'?"),
    ],
)
def test_another_task_is_refused(task: str, hint: str) -> None:
    message = f"codebase_config.task: '{task}' is not a task of mmseg; available: Segmentation"
    assert fault(type="mmseg", task=task) == (message, hint)


def test_wrong_keys_and_values_are_refused() -> None:
    message, _ = fault(with_argmx=True)
    assert message.startswith("codebase_config: unknown key 'with_argmx'; available: type")
    message, _ = fault(with_argmax="no")
    assert message == "codebase_config: Expected `bool`, got `str` - at `$.with_argmax`"


@pytest.mark.parametrize(
    ("config", "size"),
    [
        ({"model": {"data_preprocessor": {"size": (512, 1024)}}}, (3, 512, 1024)),
        ({"model": {"backbone": {"in_channels": 1}}, "crop_size": (64, 96)}, (1, 64, 96)),
        ({"model": {}}, (3, 512, 512)),
    ],
)
def test_the_image_size_is_read_from_the_config(config: Any, size: tuple[int, int, int]) -> None:
    assert read_image_size(config) == size


def test_other_models_get_no_rewriters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "enginebay_mmseg.segmenter", raising=False)
    assert list(plugin.rewriters(RewritersRequest(backend="onnxruntime", ir="onnx"))) == []


def test_config_check_refuses_the_keys_that_deploy_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mmseg", None)
    config = tmp_path / "mine.py"
    config.write_text("codebase_config = dict(type='mmseg', task='segmentation')")
    ran = call_command(capfd, "config", "check", str(config))
    problem = "codebase_config.task: 'segmentation' is not a task of mmseg; available: Segmentation"
    assert (ran.code, ran.out.startswith(f"{config}:1:1: {problem}")) == (1, True)
    config.write_text("codebase_config = dict(type='mmseg', with_argmax=False)")
    assert call_command(capfd, "config", "check", str(config)).code == 0
