"""Other runs of a file, which show what rounding decides, have a limit of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

from enginebay.models import bind
from enginebay.reference import ProbeSettings, record_reference, rounding_sensitivity
from enginebay.sources import find_model
from enginebay.verification import Evidence
from enginebay.verification.verdict_rules import decide

if TYPE_CHECKING:
    from pathlib import Path

#: Of silence, all levels are equal, and the last bit of their mean decides.
LEVELS = """<ir_version: 8, opset_import: ["" : 17]> g (float[4,333] x) => (float[4,333] y) {
    guard = Constant<value = float {5.9e-8}>() e = Constant<value = float {1e-5}>()
    p = Mul(x, x) a = Add(p, guard) l = Log(a) m = ReduceMean<axes = [1]>(l) d = Sub(l, m)
    q = Mul(d, d) v = ReduceMean<axes = [1]>(q) s = Sqrt(v) t = Add(s, e) y = Div(d, t) }"""


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_mismatch_that_there_was_no_time_for_is_told(
    is_cut: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(parse_model(LEVELS), tmp_path / "levels.onnx")
    x = np.random.default_rng(0).standard_normal((4, 333), np.float32)
    model = bind(find_model(tmp_path / "levels.onnx"), {"x": x})
    recorded = record_reference(model, "none", settings=ProbeSettings())
    found = []
    for label, sample in zip(recorded.basis.labels, recorded.samples, strict=True):
        factors = {"zeros": -1, "redrawn": 1.001}
        found.append({"y": sample.outputs["y"] * np.float32(factors.get(label, 1))})
    evidence = Evidence(recorded.samples, found, recorded.basis)
    assert evidence.failed == ("redrawn", "zeros")
    if is_cut:
        monkeypatch.setattr(rounding_sensitivity, "_FILE_SECONDS", -1)
    settled = rounding_sensitivity.settle_rounding(recorded, evidence)
    assert "zeros: rounding alone decides what the model returns" in settled.basis.dropped
    verdict, reason = decide(settled)
    if not is_cut:
        assert (verdict, settled.basis.unexamined) == ("mismatched", ())
        return
    assert (verdict, settled.basis.unexamined) == ("unverified", ("redrawn",))
    assert reason.startswith(
        "rounding explains the worst mismatch, and onnx's evaluator is too slow to find out if it "
        "explains those on redrawn; "
    )
