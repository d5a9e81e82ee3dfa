"""A machine without the converter of a backend runs its artifacts, and refuses conversions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

import enginebay as eb
from enginebay.errors import BackendUnavailableError
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """\
import enginebay as eb
from enginebay_testing import loopback
from enginebay_testing.loopback import build_wrapper, check_env, to_backend

@eb.hookimpl
def backend_info():
    return eb.BackendInfo(
        name="ahead", irs=("onnx",), params=loopback.LoopbackParams,
        runtime_distributions=("onnx",), build_distributions=({!r},),
    )
"""
MISSING = "only runs artifacts: no-such-compiler is not installed"


def test_without_the_converter_artifacts_run_and_conversions_are_refused(tmp_path: Path) -> None:
    model, x = torch.nn.Linear(4, 3), torch.ones(1, 4)
    options = {"backend": "ahead", "work_dir": tmp_path / "out"}
    with temporary_backend("ahead", SOURCE.format("onnx")):
        assert eb.get_backend("ahead").check_env().checks[-1].status == "ok"
        artifact = eb.deploy(model, x, **options).artifact
    with temporary_backend("ahead", SOURCE.format("no-such-compiler>=2")):
        report = eb.get_backend("ahead").check_env()
        assert report.ok
        assert (report.checks[-1].status, report.checks[-1].found) == (
            "skipped",
            "without no-such-compiler, this machine runs artifacts, and converts no model",
        )
        with eb.load(artifact) as wrapper:
            assert wrapper(np.ones((1, 4), np.float32)).shape == (1, 3)
        with pytest.raises(BackendUnavailableError, match=MISSING) as caught:
            eb.deploy(model, x, overwrite=True, **options)
        assert "no-such-compiler>=2" in str(caught.value.hint)
        ir = next((tmp_path / "out").rglob("*.onnx"))
        with pytest.raises(BackendUnavailableError, match=MISSING):
            eb.convert(ir, backend="ahead", work_dir=tmp_path / "again")
