"""The rules of a verdict: one test for each, and what holds for all of them together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from enginebay.comparators import Comparator
from enginebay.tensors import Sample
from enginebay.verdict import EXAMPLE, Basis, ComparisonRequest, ComparisonResult
from enginebay.verification import verdict_rules
from enginebay.verification.engine_verdict import build_verdict
from enginebay.verification.evidence import Evidence
from enginebay.verification.verdict_rules import RULES, decide

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from enginebay.tensors import NumpyArray

    Rule = Callable[[Evidence], str | None]


def evidence_of(
    expected: Sequence[Any], found: Sequence[Any] | None = None, **terms: Any
) -> Evidence:
    """Return evidence on one output ``y``, for inputs that differ from sample to sample."""
    recorded = [
        Sample({"x": np.float32([number])}, {"y": _array(values)})
        for number, values in enumerate(expected)
    ]
    outputs = [{"y": _array(values)} for values in (expected if found is None else found)]
    return Evidence(recorded, outputs, **terms)


def _array(values: Any) -> NumpyArray:
    return np.asarray(values, getattr(values, "dtype", np.float32))


#: An engine that agrees with its model on two samples that differ.
RIGHT = ([1, 2], [3, 4])
WRONG = ([1, 2], [3, 9])


def test_an_engine_is_verified_if_no_rule_objects() -> None:
    assert decide(evidence_of(RIGHT)) == ("verified", "")


def test_coarser_than_allowed() -> None:
    reason = "the engine computed in int8, but fp16 was requested"
    coarse = evidence_of(RIGHT, precision="int8", allowed="fp16")
    assert verdict_rules.coarser_than_allowed(coarse) == reason
    assert decide(coarse) == ("mismatched", reason)
    finer = evidence_of(RIGHT, precision="fp32", allowed="fp16")
    assert verdict_rules.coarser_than_allowed(finer) is None


def test_a_file_that_computes_in_8_bits_allows_what_it_says() -> None:
    file = Basis(precision="int8")
    assert decide(evidence_of(RIGHT, precision="int8", basis=file))[0] == "verified"
    # In fp32, other orders of its sums lead to other steps.
    values = np.random.default_rng(0).normal(size=(2, 1000)).astype(np.float32)
    steps = values + np.float32(0.03)
    assert decide(evidence_of(values, steps, basis=file))[0] == "verified"
    assert decide(evidence_of(values, steps))[0] == "mismatched"
    assert decide(evidence_of(values, -values, basis=file))[0] == "mismatched"
    # Weights of 8 bits are exact: the tolerance stays that of fp32.
    stored = Basis(stores_8_bits=True)
    assert decide(evidence_of(values, precision="int8", basis=stored))[0] == "verified"
    assert decide(evidence_of(values, steps, precision="int8", basis=stored))[0] == "mismatched"


def test_random_reference() -> None:
    basis = Basis(doubt="the model is not deterministic")
    random = evidence_of(RIGHT, WRONG, basis=basis)
    assert verdict_rules.random_reference(random) == "the model is not deterministic"
    # Such a model does not even prove an engine wrong.
    assert decide(random) == ("unverified", "the model is not deterministic")
    assert verdict_rules.random_reference(evidence_of(RIGHT)) is None


def test_differing_engines() -> None:
    basis = Basis(inexact="onnx's reference evaluator cannot run 'm.onnx': no LSTM in 8 bits")
    differing = evidence_of(RIGHT, WRONG, basis=basis)
    verdict, reason = decide(differing)
    assert verdict == "unverified"
    assert reason == verdict_rules.differing_engines(differing)
    assert reason.startswith('two engines differ, and neither is exact: "y" at [1]: expected 4.0')
    assert "no LSTM in 8 bits" in reason
    assert verdict_rules.differing_engines(evidence_of(RIGHT, WRONG)) is None


@pytest.mark.parametrize(
    ("error", "engine", "two_engines"),
    [(2, "verified", "verified"), (4, "mismatched", "verified"), (8, "mismatched", "unverified")],
)
def test_two_engines_are_allowed_twice_the_error(error: int, engine: str, two_engines: str) -> None:
    expected = [[1000.0, 2000.0], [3000.0, 4000.0]]
    found = [[1000 * (1 + error * 2.0**-13), 2000.0], [3000.0, 4000.0]]
    assert decide(evidence_of(expected, found))[0] == engine
    basis = Basis(inexact="no such operator")
    assert decide(evidence_of(expected, found, basis=basis))[0] == two_engines


def test_unexamined_mismatches() -> None:
    basis = Basis(labels=("example", "redrawn"), unexamined=("redrawn",))
    late = evidence_of([RIGHT, RIGHT], [RIGHT, WRONG], basis=basis)
    verdict, reason = decide(late)
    assert verdict == "unverified"
    assert reason == verdict_rules.unexamined_mismatches(late)
    assert "too slow to find out if it explains those on redrawn" in reason
    # Nothing explains another one.
    both = evidence_of([RIGHT, RIGHT], [WRONG, WRONG], basis=basis)
    assert verdict_rules.unexamined_mismatches(both) is None
    assert decide(both)[0] == "mismatched"


def test_different_outputs() -> None:
    assert decide(evidence_of(RIGHT, WRONG)) == ("mismatched", "")
    assert verdict_rules.different_outputs(evidence_of(RIGHT)) is None


def test_different_outputs_for_noise_in_8_bits() -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=(2, 1000)).astype(np.float32)
    noise = 0.12 * np.sign(random.normal(size=(2, 1000))).astype(np.float32)
    noisy = evidence_of(values, values + noise, precision="int8", allowed="int8")
    assert noisy.failed == ()
    assert [signal.passed for signal in noisy.signals] == [False]
    assert decide(noisy) == ("mismatched", "")


def test_decided_by_rounding() -> None:
    basis = Basis(labels=(EXAMPLE, "item 3"), undecided=("item 3",))
    undecided = evidence_of(RIGHT, WRONG, basis=basis)
    verdict, reason = decide(undecided)
    assert verdict == "unverified"
    assert reason == verdict_rules.decided_by_rounding(undecided)
    assert reason.startswith(
        "rounding alone decides what the model returns on item 3: the model itself is as far off "
        'with other rounding errors, or another order of equal values; "y" at [1]: expected 4.0, '
        "found 9.0; "
    )
    assert reason.endswith(
        "; pass an example away from steps and ties, name outputs whose order may differ "
        "(--compare), or pass a tolerance (--rtol)"
    )
    # An error on another sample is not excused.
    both = evidence_of(RIGHT, ([1, 9], [3, 9]), basis=basis)
    assert both.failed == (EXAMPLE,)
    assert decide(both) == ("mismatched", "")
    assert verdict_rules.decided_by_rounding(evidence_of(RIGHT, basis=basis)) is None


def test_blind_comparator() -> None:
    def compare_best(request: ComparisonRequest) -> ComparisonResult:
        expected, found = (side["y"].argmax() for side in (request.expected, request.found))
        return ComparisonResult(passed=bool(expected == found), matched=1)

    comparators = [Comparator(("y",), "best", compare_best)]
    blind = evidence_of([[5, 4, 1], [5, 0, 1]], comparators=comparators)
    reason = (
        "best of y finds no difference between 2 samples; pass an example, or --data, with "
        "different results"
    )
    assert verdict_rules.blind_comparator(blind) == reason
    assert decide(blind) == ("unverified", reason)
    seeing = evidence_of([[5, 4, 1], [0, 4, 1]], comparators=comparators)
    assert verdict_rules.blind_comparator(seeing) is None


def test_nothing_finite() -> None:
    nan = evidence_of([[np.nan, np.inf], [np.nan, -np.inf]])
    assert decide(nan) == ("unverified", "the model returns nothing but NaN and infinity")
    assert verdict_rules.nothing_finite(evidence_of([[np.nan], [1]])) is None


def test_unchanging_outputs() -> None:
    reason = (
        "no output changes between the 2 samples; pass an example whose values matter to the model"
    )
    assert decide(evidence_of([[1, 2], [1, 2]])) == ("unverified", reason)
    assert verdict_rules.unchanging_outputs(evidence_of(RIGHT)) is None
    # Equal inputs must have equal outputs.
    one, _ = evidence_of(RIGHT).recorded
    twice = Evidence([one, one], [one.outputs, one.outputs])
    assert verdict_rules.unchanging_outputs(twice) is None


def test_changes_within_tolerance() -> None:
    reason = (
        "'y' varies between samples by only 0.69 times its tolerance, so an engine that ignores "
        "the inputs would pass; lower --rtol, or remove a constant from the output"
    )
    kelvin = ([300.0, 300.0], [300.0, 300.05])
    assert decide(evidence_of(kelvin)) == ("unverified", reason)
    hot = evidence_of([[300.0, 300.0], [300.0, 330.0]])
    assert verdict_rules.changes_within_tolerance(hot) is None
    # Of 8 bits, the signal-to-noise ratio is measured.
    coarse = evidence_of(kelvin, precision="int8", allowed="int8")
    assert verdict_rules.changes_within_tolerance(coarse) is None


def test_nothing_compared() -> None:
    empty = evidence_of([np.zeros((0, 3), np.float32)])
    assert decide(empty) == ("unverified", "no number was compared")
    assert verdict_rules.nothing_compared(evidence_of(RIGHT)) is None


def test_most_probes_undecided() -> None:
    reason = "rounding alone decides what the model returns on most probe inputs"
    labels = (EXAMPLE, "redrawn")
    most = evidence_of(RIGHT, basis=Basis(labels=labels, undecided=("zeros", "ones")))
    assert decide(most) == ("unverified", reason)
    half = evidence_of(RIGHT, basis=Basis(labels=labels, undecided=("zeros",)))
    assert verdict_rules.most_probes_undecided(half) is None


def test_every_rule_has_a_test() -> None:
    tests = {name.removeprefix("test_") for name in globals()}
    assert {rule.objection.__name__ for rule in RULES} <= tests


RANDOM = Basis(doubt="it is random")
UNDECIDED = Basis(labels=(EXAMPLE, "item 3"), undecided=("item 3", "zeros", "ones", "twos"))


@pytest.mark.parametrize(
    ("evidence", "verdict", "reason"),
    [
        (evidence_of(RIGHT, basis=RANDOM, precision="fp16"), "mismatched", "in fp16, but fp32"),
        (evidence_of(RIGHT, WRONG, precision="fp16"), "mismatched", "in fp16, but fp32"),
        (evidence_of(RIGHT, WRONG, basis=UNDECIDED), "unverified", "on item 3: the model itself"),
        (evidence_of([[np.nan], [np.nan]]), "unverified", "nothing but NaN"),
    ],
    ids=["coarse and random", "coarse and wrong", "rounding", "NaN"],
)
def test_the_first_of_several_rules_decides(evidence: Evidence, verdict: str, reason: str) -> None:
    objections = [rule for rule in RULES if rule.objection(evidence) is not None]
    assert len(objections) > 1
    found = decide(evidence)
    assert found[0] == verdict == objections[0].verdict
    assert reason in found[1]


LABELS = (EXAMPLE, "redrawn", "zeros", "item 1")
VALUES = st.sampled_from([0.0, 1.0, 1.00001, -2.0, 300.0, np.nan, np.inf])
ROWS = st.lists(st.lists(VALUES, min_size=2, max_size=2), min_size=1, max_size=4)
PRECISIONS = st.sampled_from(["fp32", "fp16", "int8"])


@st.composite
def evidences(draw: st.DrawFn) -> Evidence:
    """Draw evidence that few or many rules object to."""
    expected = draw(ROWS)
    errors = [draw(st.sampled_from([0.0, 0.0, 1e-7, 0.5, np.nan])) for _ in expected]
    found = [
        np.float32(row) + np.float32(error) for row, error in zip(expected, errors, strict=True)
    ]
    basis = Basis(
        labels=LABELS[: len(expected)],
        undecided=tuple(draw(st.sets(st.sampled_from([*LABELS, "ones"])))),
        doubt=draw(st.sampled_from(["", "", "the model is not deterministic"])),
    )
    return evidence_of(
        expected, found, basis=basis, precision=draw(PRECISIONS), allowed=draw(PRECISIONS)
    )


@given(evidences())
def test_verified_means_that_no_rule_objects(evidence: Evidence) -> None:
    objections = [rule.objection(evidence) for rule in RULES if evidence.samples]
    is_verified = decide(evidence)[0] == "verified"
    assert is_verified == all(objection is None for objection in objections)


def doubt(evidence: Evidence) -> Evidence:
    return replace(evidence, basis=structs.replace(evidence.basis, doubt="it is random"))


def leave_out_probes(evidence: Evidence) -> Evidence:
    undecided = (*evidence.basis.undecided, "ones", "twos", "threes")
    return replace(evidence, basis=structs.replace(evidence.basis, undecided=undecided))


def forbid_coarse(evidence: Evidence) -> Evidence:
    return replace(evidence, allowed="fp32")


def make_constant(evidence: Evidence) -> Evidence:
    samples = [
        sample._replace(outputs=evidence.recorded[0].outputs) for sample in evidence.recorded
    ]
    return replace(evidence, recorded=samples)


def lose_outputs(evidence: Evidence) -> Evidence:
    return replace(evidence, found=[{}, *evidence.found[1:]])


def damage(evidence: Evidence) -> Evidence:
    *kept, last = evidence.found
    return replace(evidence, found=[*kept, {"y": last["y"] + np.float32(1e6)}])


WORSE = [doubt, leave_out_probes, forbid_coarse, make_constant, lose_outputs, damage]


@pytest.mark.parametrize("worsen", WORSE)
@given(evidence=evidences())
def test_worse_evidence_never_makes_a_verdict_greener(
    worsen: Callable[[Evidence], Evidence], evidence: Evidence
) -> None:
    before, after = decide(evidence)[0], decide(worsen(evidence))[0]
    assert after != "verified" or before == "verified"


@given(evidences())
def test_doubts_excuse_no_wrong_engine(evidence: Evidence) -> None:
    if evidence.failed and not evidence.basis.doubt:
        assert decide(evidence)[0] == decide(leave_out_probes(evidence))[0] == "mismatched"


@given(evidences(), st.permutations(range(4)))
def test_the_order_of_the_samples_decides_nothing(evidence: Evidence, order: list[int]) -> None:
    rows = [number for number in order if number < len(evidence.recorded)]
    shuffled = replace(
        evidence,
        recorded=[evidence.recorded[number] for number in rows],
        found=[evidence.found[number] for number in rows],
        basis=structs.replace(
            evidence.basis, labels=tuple(evidence.basis.labels[number] for number in rows)
        ),
    )
    verdicts = {decide(evidence)[0], decide(shuffled)[0]}
    assert len(verdicts) == 1


def test_an_empty_reason_is_for_figures_alone() -> None:
    verification = build_verdict(evidence_of(RIGHT, WRONG), "the model")
    assert verification.reason == ""
    assert 'worst: "y" at [1]: expected 4.0, found 9.0' in verification.summary()
