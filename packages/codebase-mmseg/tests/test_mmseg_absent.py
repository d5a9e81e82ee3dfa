"""The package's metadata and its errors: these tests run without mmseg."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import pytest

import enginebay as eb
from enginebay.environment import install_command
from enginebay.hooks import ModelRequest, RewritersRequest
from enginebay_mmseg import library, plugin
from enginebay_mmseg.model_config import read_image_size
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
    monkeypatch.setattr("enginebay_mmseg.library.find_spec", lambda name: None)
    (tmp_path / "mine.py").write_text("codebase_config = dict(type='mmseg', task='Segmentation')")
    for words in (("mmseg:stdc1",), ("stdc1", "--config", "mine.py")):
        ran = call_command(capfd, "deploy", *words, "--backend", "onnxruntime")
        assert ran.code == 3
        assert ran.err == (
            f"error: a model 'mmseg:NAME' requires mmseg, which is not installed\nhint: {INSTALL}\n"
        )
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


@pytest.mark.parametrize(
    ("distributions", "versions", "remove"),
    [
        (["mmsegmentation"], " (mmsegmentation 0.30.0)", "pip uninstall mmsegmentation, then "),
        (
            ["mmsegmentation", "onedl-mmsegmentation"],
            " (mmsegmentation 0.30.0, onedl-mmsegmentation 0.30.0)",
            "pip uninstall mmsegmentation onedl-mmsegmentation, then ",
        ),
        (["onedl-mmsegmentation"], " (onedl-mmsegmentation 0.30.0)", ""),
        ([], "", ""),
    ],
)
def test_another_fork_or_version_that_cannot_be_imported_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    distributions: list[str],
    versions: str,
    remove: str,
) -> None:
    (tmp_path / "mmseg.py").write_text("raise AssertionError('MMCV==2.3.6 is used, but …\\n2')")
    for name in [name for name in sys.modules if name.partition(".")[0] == "mmseg"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(library, "packages_distributions", lambda: {"mmseg": distributions})
    monkeypatch.setattr(library, "version", lambda name: "0.30.0")
    message = f"mmseg is installed{versions} but cannot be imported: AssertionError: MMCV==2.3.6 "
    assert fault() == (f"{message}is used, but …", f"{remove}{INSTALL}")


@pytest.mark.parametrize(
    ("task", "hint"),
    [
        ("ObjectDetection", "set task='Segmentation', or remove task"),
        ("segmentation", "did you mean 'Segmentation'?"),
    ],
)
def test_another_task_is_refused(task: str, hint: str) -> None:
    message = f"codebase_config.task: '{task}' is not a task of mmseg; available: Segmentation"
    assert fault(task=task) == (message, hint)


def test_wrong_keys_and_values_are_refused() -> None:
    message, _ = fault(with_argmx=True)
    assert message.startswith("codebase_config: unknown key 'with_argmx'; available: type")
    message, _ = fault(with_argmax="no")
    assert message == "codebase_config.with_argmax: expected True or False, found 'no'"


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
