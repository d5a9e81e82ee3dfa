"""The plugin as it is installed, on the command line."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from enginebay_testing.command_runs import call_command

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_distribution_announces_one_plugin() -> None:
    (found,) = entry_points(group="enginebay.plugins", name="models")
    assert found.value == "enginebay_models.plugin"


def test_deploy_accepts_a_model_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = call_command(capfd, "deploy", "timm:resnet10t", "--backend", "onnxruntime")
    assert ran.code == 0, ran.err
    assert "verified" in ran.out
    assert (tmp_path / "timm-resnet10t-onnxruntime" / "manifest.json").is_file()


def test_an_unknown_model_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = call_command(capfd, "deploy", "timm:resnt18", "--backend", "onnxruntime")
    assert ran.code == 2
    assert ran.err.startswith("error: timm has no model 'resnt18'\nhint: similar names: resnet18")
    assert list(tmp_path.iterdir()) == []
