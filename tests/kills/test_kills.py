"""A few of the signals that ``nox -s kills`` sends, with a fixed seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
import onnx.parser
import pytest

from .deployments import SIGNALS, Victim, random_runs

if TYPE_CHECKING:
    from pathlib import Path

TINY = '<ir_version: 8, opset_import: ["" : 17]> g (float[1,4] x) => (float[1,4] y) { y = Relu(x) }'


@pytest.mark.slow
def test_signalled_deployment_ends_and_leaves_no_files(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(TINY), tmp_path / "tiny.onnx")
    victim = Victim(tmp_path, "onnxruntime", "tiny.onnx")
    for _ in random_runs(victim, len(SIGNALS), seed=1):
        pass
    assert not victim.tally.failed, victim.tally
