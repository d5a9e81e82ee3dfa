"""A few of the signals that ``nox -s kills`` sends, with a fixed seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.backend.checking import _TINY_MODELS

from .deployments import SIGNALS, Victim, random_runs

if TYPE_CHECKING:
    from pathlib import Path


def test_signalled_deployment_ends_and_leaves_no_files(tmp_path: Path) -> None:
    (tmp_path / "tiny.onnx").write_bytes((_TINY_MODELS / "tiny.onnx").read_bytes())
    victim = Victim(tmp_path, "onnxruntime", "tiny.onnx")
    for _ in random_runs(victim, len(SIGNALS), seed=1):
        pass
    assert not victim.tally.failed, victim.tally
