"""The package's metadata and its errors: these tests run without mmpose."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import pytest

import enginebay as eb
from enginebay.environment import install_command
from enginebay.hooks import ModelRequest, RewritersRequest
from enginebay_mmpose import plugin
from enginebay_mmpose.source import read_image_size
from enginebay_testing.command_runs import call_command

if TYPE_CHECKING:
    from pathlib import Path

INSTALL = install_command("enginebay-mmpose[mmpose]") + ", then pip install --no-deps mmpose"


def fault(name: str = "td-hm_res50_8xb64", **section: Any) -> tuple[str, str | None]:
    with pytest.raises(eb.EnginebayError) as caught:
        plugin.model_sources()["mmpose"](ModelRequest(name=name, codebase_config=section))
    return str(caught.value), caught.value.hint


def test_the_distribution_announces_one_plugin() -> None:
    (found,) = entry_points(group="enginebay.plugins", name="mmpose")
    assert found.value == "enginebay_mmpose.plugin"


def test_the_command_line_reports_a_missing_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "mmpose", None)
    (tmp_path / "mine.py").write_text("codebase_config = dict(type='mmpose', task='PoseDetection')")
    for words in (("mmpose:rtmpose",), ("rtmpose", "--config", "mine.py")):
        ran = call_command(capfd, "deploy", *words, "--backend", "onnxruntime")
        assert ran.code == 3
        assert ran.err == (
            "error: a model 'mmpose:NAME' requires mmpose, which is not installed\n"
            f"hint: {INSTALL}\n"
        )
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


def test_another_version_that_cannot_be_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mmpose.py").write_text("raise AssertionError('MMCV==2.3.6 is used, but …\\n2')")
    for name in [name for name in sys.modules if name.partition(".")[0] == "mmpose"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    message, hint = fault()
    assert message.startswith("mmpose is installed")
    assert message.endswith("but cannot be imported: AssertionError: MMCV==2.3.6 is used, but …")
    assert hint is not None
    assert hint.endswith("then pip install --no-deps mmpose")


@pytest.mark.parametrize(
    ("task", "hint"),
    [
        ("Segmentation", "set task='PoseDetection', or remove task"),
        ("PoseDetect", "did you mean 'PoseDetection'?"),
    ],
)
def test_another_task_is_refused(task: str, hint: str) -> None:
    message = f"codebase_config.task: '{task}' is not a task of mmpose; available: PoseDetection"
    assert fault(type="mmpose", task=task) == (message, hint)


def test_wrong_keys_and_values_are_refused() -> None:
    message, _ = fault(export_post=False)
    assert message.startswith("codebase_config: unknown key 'export_post'; available: type")
    message, hint = fault(post_processing={"keep_topk": 5})
    assert message.startswith("codebase_config.post_processing: 'keep_topk' is not a known key")
    assert hint == "did you mean 'keep_top_k'?"
    message, _ = fault(export_postprocess=True)
    assert message.startswith("codebase_config.export_postprocess: True is not supported")


def test_keys_without_effect_are_told(caplog: pytest.LogCaptureFixture) -> None:
    from enginebay_mmpose.source import check_section

    section = {"post_processing": {"pre_top_k": 5000, "keep_top_k": 100}}
    check_section(ModelRequest(name="rtmo", codebase_config=section))
    assert caplog.messages == ["codebase_config.post_processing: keys without effect: pre_top_k"]


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ({"head": {"decoder": {"input_size": (192, 256)}}}, (3, 256, 192)),
        ({"head": {"decoder": [{}, {"input_size": (288, 384)}]}}, (3, 384, 288)),
        ({"head": {}, "test_cfg": {"input_size": (640, 640)}}, (3, 640, 640)),
        ({"backbone": {"in_channels": 1}, "head": None}, (1, 256, 192)),
    ],
)
def test_the_image_size_is_read_from_the_config(model: Any, size: tuple[int, int, int]) -> None:
    assert read_image_size({"model": model}) == size


def test_other_models_get_no_rewriters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "enginebay_mmpose.estimator", raising=False)
    assert list(plugin.rewriters(RewritersRequest(backend="onnxruntime", ir="onnx"))) == []
