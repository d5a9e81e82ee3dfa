"""The page about providers, and the comparison behind it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from enginebay_testing.conformance.report import Finding, Report

from .batch import Step, find_difference
from .page import write_page


def law(family, outcome, reason=""):
    return Finding(
        family=family, law="test_numbers_add_up", case="a", sentence="They do.", outcome=outcome,
        reason=reason, seconds=0.1,
    )  # fmt: skip


def test_the_page_counts_outcomes_and_names_faults():
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y)'
    models = {
        f"node/test_{name}": onnx.parser.parse_model(f"{text} {{ y = {name}(x) }}")
        for name in ("Abs", "Exp", "Neg")
    }
    steps = {
        "node/test_Abs": Step("node/test_Abs", "right"),
        "node/test_Exp": Step("node/test_Exp", "wrong", "1 of 2; on the CPU provider right"),
        "node/test_Neg": Step("node/test_Neg", "died", "'batch:run' ended with SIGSEGV"),
    }
    laws = [law("numbers", "held"), law("numbers", "broken", "AssertionError: 1 of 2 differ")]
    networks = [law("operators", "skipped", "no"), law("operators", "broken", "mismatched")]
    report = Report(backend="onnxruntime-with-params", findings=laws, operators=networks)
    page = write_page({"mine 1.0": steps}, models, {"mine 1.0": []}, {"mine 1.0": report})
    assert "| `mine 1.0` | 1 | 1 | 1 | 0 | 0 | 0 | 1 |\n" in page
    assert "- Exp, `test_Exp`: 1 of 2\n- Neg, `test_Neg`: ended with SIGSEGV\n" in page
    assert "| `mine 1.0` | 1 | 1 | 0 | 0 verified, 1 refused, 1 not verified |\n" in page
    assert "- `mine 1.0`: numbers add up, a: 1 of 2 differ\n" in page
    assert "- `mine 1.0`: numbers add up, a: mismatched\n" in page
    assert "| Abs | 1 right |\n| Exp | 1 wrong |\n| Neg | 1 died |\n" in page


@pytest.mark.parametrize(
    ("expected", "found", "difference"),
    [
        (np.float32([1, np.nan]), np.float32([1.001, np.nan]), ""),
        (np.float32([1, 2]), np.float32([1, 2.5]), "1 of 2 elements differ"),
        (np.float32([1]), np.float64([1]), "float64[1] for float32[1]"),
        (np.array(["a", "b"]), np.array(["a", "c"]), "1 of 2 elements differ"),
    ],
)
def test_results_are_compared_with_their_dtypes(expected, found, difference):
    assert find_difference(expected, found) == difference
