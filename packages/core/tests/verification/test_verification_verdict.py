from __future__ import annotations

import msgspec
import numpy as np
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from enginebay.tensors import Sample
from enginebay.verdict import Verification
from enginebay.verification.engine_verdict import build_verdict
from enginebay.verification.evidence import Evidence

REFERENCE = "the PyTorch model, unpatched"


def sample(*errors: float):
    """Return one output per error: all its values are 1, and the error is added to the last."""
    expected = {f"y{i}": np.ones(4, np.float32) for i in range(len(errors))}
    found = {name: values.copy() for name, values in expected.items()}
    for values, error in zip(found.values(), errors, strict=True):
        values[-1] += error
    return expected, found


def judge(pairs, reference="r", fallbacks=(), **terms) -> Verification:
    """Return the verdict on pairs of expected and found outputs, for the same inputs."""
    recorded = [Sample({}, expected) for expected, _ in pairs]
    evidence = Evidence(recorded, [found for _, found in pairs], **terms)
    return build_verdict(evidence, reference, fallbacks)


def test_small_errors_are_verified():
    verdict = judge([sample(0, 1e-6), sample(0, 0)], reference=REFERENCE)
    assert (verdict.verdict, verdict.passed, verdict.samples) == ("verified", True, 2)
    assert verdict.precision == "fp32"
    assert [output.name for output in verdict.outputs] == ["y0", "y1"]
    assert verdict.summary() == (
        "verified against the PyTorch model, unpatched on 2 outputs, 2 samples; worst:"
        ' "y1" at [3]: expected 1.0, found 1.000001; allowed rtol 0.000122, atol 0.000122'
    )


def test_large_errors_are_mismatched():
    verdict = judge([sample(1e-6), sample(0.5), sample(0.25)], reference=REFERENCE)
    assert (verdict.verdict, verdict.passed) == ("mismatched", False)
    assert verdict.outputs[0].worst_found == "1.5"
    assert verdict.summary() == (
        "mismatched against the PyTorch model, unpatched on 1 output, 3 samples; worst:"
        ' "y0" at [3]: expected 1.0, found 1.5; 1 of 4 elements differ;'
        " allowed rtol 0.000122, atol 0.000122; rtol 0.252 would pass"
    )


def test_a_mismatch_says_what_the_engine_fell_back_on():
    fallbacks = ("no layer computes in int8",)
    verdict = judge([sample(0.5)], reference=REFERENCE, fallbacks=fallbacks)
    assert verdict.summary().endswith("rtol 0.252 would pass; no layer computes in int8")


def test_the_tolerance_in_the_summary_passes():
    assert judge([sample(0.5)], rtol=0.252).passed


def test_each_output_reports_its_worst_sample():
    verdict = judge([sample(0.5, 0), sample(0, 0.25), sample(0, 0)])
    assert [output.max_abs_error for output in verdict.outputs] == [0.5, 0.25]


def test_a_nan_is_worse_than_any_number():
    verdict = judge([sample(9e9), sample(float("nan")), sample(1e30)])
    assert verdict.outputs[0].worst_found == "nan"


def test_a_failed_sample_is_worse_than_nan_in_both_outputs():
    nan = np.array([np.nan, 1], np.float32)
    both = {"y": nan}, {"y": nan}
    wrong = {"y": np.ones_like(nan)}, {"y": nan}
    assert not judge([both, wrong, both]).passed
    verdict = judge([both])
    assert verdict.passed
    assert "1 of 2 elements are NaN in both" in verdict.summary()


def test_an_output_missing_in_one_sample_is_mismatched():
    ones = np.ones(2, np.float32)
    broken = {"y": ones}, {}
    verdict = judge([({"y": ones}, {"y": ones}), broken])
    assert verdict.summary() == (
        "mismatched against r on 1 output, 2 samples; worst:"
        ' "y": the artifact has no such output; its outputs: none'
    )


def test_unverified_and_crashed_do_not_pass():
    unverified = Verification.unverified("no reference was given")
    crashed = Verification.crashed("the engine ended with signal 11", reference=REFERENCE)
    assert (unverified.verdict, unverified.passed) == ("unverified", False)
    assert (crashed.verdict, crashed.passed) == ("crashed", False)
    assert unverified.summary() == "unverified: no reference was given"
    assert crashed.summary() == "crashed: the engine ended with signal 11"


ODD = np.array([np.nan, np.inf, -np.inf, 0.0, 1e300])


@given(values=hnp.arrays(np.float64, 5), found=hnp.arrays(np.float64, 5))
def test_a_verdict_of_any_outputs_survives_json(values, found):
    for pair in ((values, found), (values, ODD), (ODD, found), (values, found.view(np.int64))):
        verdict = judge([({"y": pair[0]}, {"y": pair[1]})], reference=REFERENCE)
        data = msgspec.json.encode(verdict)
        assert msgspec.json.decode(data, type=Verification) == verdict


@given(st.integers(0, 6).flatmap(lambda n: st.permutations(list(range(n)))))
def test_the_order_of_the_samples_does_not_matter(order):
    errors = [0.0, 1e-6, 1e-5, 0.1, 0.5, float("inf"), 3.0]
    first = judge([sample(errors[i]) for i in order])
    second = judge([sample(errors[i]) for i in sorted(order)])
    assert first == second
