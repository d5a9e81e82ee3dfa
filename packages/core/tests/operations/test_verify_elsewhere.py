"""An artifact that was built on another machine is verified here and records the result."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.artifact import open_artifact, record_run
from enginebay.operations import verify_artifact

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def built(ahead: str, tmp_path: Path) -> Path:
    """An artifact that was built on a machine without a board."""
    made = eb.deploy(nn.GELU(), torch.linspace(-2, 2, 6), backend=ahead, work_dir=tmp_path / "out")
    return made.artifact.path


@pytest.fixture
def move(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that simulates a board in this machine."""

    def move(device: str, gain: str = "1") -> None:
        monkeypatch.setenv("AHEAD_DEVICE", device)
        monkeypatch.setenv("AHEAD_GAIN", gain)

    return move


def test_verify_on_the_device_records_the_run(built: Path, move: Callable[..., None]) -> None:
    before = open_artifact(built).manifest.verification
    move("Board 1")
    verification = eb.verify(built)
    assert (verification.verdict, verification.samples) == ("verified", 6)
    manifest = open_artifact(built).manifest
    (run,) = manifest.runs
    assert (run.host, run.device, run.verdict) == (os.uname().nodename, "Board 1", "verified")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", run.time)
    assert (run.engine_version, run.enginebay_version) == (manifest.engine_version, eb.__version__)
    recorded = manifest.verification
    assert before is not None
    assert recorded is not None
    assert (recorded.verdict, recorded.samples, recorded.basis) == ("verified", 6, before.basis)
    assert (recorded.reference, recorded.simulation) == (before.reference, before.simulation)
    assert manifest.receipt == run.receipt
    assert eb.verify(built).reference == f"the recorded outputs of {before.reference}"
    assert len(open_artifact(built).manifest.runs) == 1


def test_worst_verdict_of_all_devices_is_the_artifacts(
    built: Path, move: Callable[..., None]
) -> None:
    move("Board 1")
    eb.verify(built)
    move("Board 2", gain="1.5")
    assert eb.verify(built).verdict == "mismatched"
    artifact = open_artifact(built)
    assert [(run.device, run.verdict) for run in artifact.manifest.runs] == [
        ("Board 1", "verified"),
        ("Board 2", "mismatched"),
    ]
    assert artifact.verdict == "mismatched"
    move("Board 1")
    assert eb.verify(built).verdict == "verified"
    assert open_artifact(built).verdict == "mismatched"
    move("Board 2", gain="crash")
    assert eb.verify(built).verdict == "crashed"
    assert open_artifact(built).verdict == "crashed"
    move("Board 2")
    eb.verify(built)
    assert open_artifact(built).verdict == "verified"


def test_verify_with_own_options_or_inputs_is_not_recorded(
    built: Path, tmp_path: Path, move: Callable[..., None]
) -> None:
    move("Board 1")
    before = (built / "manifest.json").read_bytes()
    asked: list[dict[str, Any]] = [
        {"options": eb.VerifyOptions(rtol=1e-3)},
        {"options": eb.VerifyOptions(atol=1.0)},
        {"options": eb.VerifyOptions(compare={})},
        {"inputs": {"input": torch.zeros(6).numpy()}, "reference": nn.GELU()},
    ]
    for given in asked:
        assert eb.verify(built, **given).verdict == "verified"
        assert (built / "manifest.json").read_bytes() == before


def test_verify_leaves_a_locally_built_artifact_unchanged(loopback: str, tmp_path: Path) -> None:
    made = eb.deploy(nn.ReLU(), torch.ones(2), backend=loopback, work_dir=tmp_path / "out")
    before = (made.artifact.path / "manifest.json").read_bytes()
    assert eb.verify(made.artifact).verdict == made.verdict
    assert (made.artifact.path / "manifest.json").read_bytes() == before


def test_deployment_on_the_device_is_recorded_as_first_run(
    ahead: str, tmp_path: Path, move: Callable[..., None]
) -> None:
    move("Board 1")
    made = eb.deploy(nn.GELU(), torch.linspace(-2, 2, 6), backend=ahead, work_dir=tmp_path / "out")
    assert (made.verdict, made.verification.simulation) == ("verified", None)
    move("Board 2", gain="1.5")
    eb.verify(made.artifact)
    artifact = open_artifact(made.artifact.path)
    assert [run.device for run in artifact.manifest.runs] == ["Board 1", "Board 2"]
    assert artifact.verdict == "mismatched"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the user")
def test_a_verdict_that_cannot_be_recorded_is_returned_with_a_warning(
    built: Path, move: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def record_as_nobody(*arguments: Any) -> None:
        os.seteuid(65534)
        try:
            record_run(*arguments)
        finally:
            os.seteuid(0)

    monkeypatch.setattr(verify_artifact, "record_run", record_as_nobody)
    move("Board 1")
    with pytest.warns(eb.VerdictWarning) as caught:
        assert eb.verify(built).verdict == "verified"
    assert [str(warning.message) for warning in caught] == [
        f"the verdict could not be recorded in '{built}': Permission denied"
    ]
    assert open_artifact(built).verdict == "unverified"
