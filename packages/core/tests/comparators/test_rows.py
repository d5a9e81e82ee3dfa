"""``set``: the same rows, equally often, in any order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from enginebay.comparators import find_comparators
from enginebay.errors import UsageError
from enginebay.tensors import Sample
from enginebay.verification.sample_comparison import check_comparators, compare_sample
from enginebay.verification.set_comparison import ToleranceOptions

RNG = np.random.default_rng(0)
INDICES = np.argwhere(RNG.random((9, 9)) < 0.4)
POINTS = RNG.normal(size=(50, 3)).astype(np.float32)


@pytest.mark.parametrize("rows", [INDICES, POINTS, POINTS[:, 0], INDICES[:0], POINTS[:0]])
def test_the_order_of_rows_does_not_matter(compared, rows):
    order = np.random.default_rng(1).permutation(len(rows))
    result = compared("set", {"x": rows}, {"x": rows[order]})
    assert result.passed
    assert result.matching.matched == len(rows)


@pytest.mark.parametrize("rows", [INDICES, POINTS])
def test_a_lost_added_or_changed_row_fails(compared, rows):
    for place in range(len(rows)):
        lost = compared("set", {"x": rows}, {"x": np.delete(rows, place, 0)[::-1]})
        shown = ", ".join(f"{value:.6g}" for value in rows[place])
        assert lost.outputs["x"].reason == "1 expected and 0 found rows have no match"
        assert lost.matching.worst == f"expected row {place} ({shown}) has no match"
        twice = np.concatenate([rows, rows[place : place + 1]])[::-1]
        assert not compared("set", {"x": rows}, {"x": twice}).passed
        changed = rows.copy()
        changed[place, 1] += 100
        assert not compared("set", {"x": rows}, {"x": changed[::-1]}).passed


def test_rows_of_several_outputs_belong_together(compared):
    expected = {"points": POINTS, "labels": np.arange(50)}
    back = {name: values[::-1] for name, values in expected.items()}
    assert compared("set", expected, back).passed
    assert not compared("set", expected, back | {"labels": np.arange(50)}).passed


def test_rows_within_the_tolerance_match(compared):
    found = POINTS[::-1] * np.float32(1 + 1e-5)
    result = compared("set", {"x": POINTS}, {"x": found})
    assert result.passed
    assert result.outputs["x"].max_abs_error == pytest.approx(np.abs(POINTS).max() * 1e-5, rel=0.1)
    assert not compared("set", {"x": POINTS}, {"x": POINTS[::-1] * np.float32(1.01)}).passed
    assert compared("set", {"x": POINTS}, {"x": POINTS[::-1] * np.float32(1.01)}, "bf16").passed


def test_rows_of_different_width_fail(compared):
    reason = compared("set", {"x": POINTS}, {"x": POINTS[:, :2]}).outputs["x"].reason
    assert reason == "its rows differ in shape: expected (50, 3), found (50, 2)"


@given(seed=st.integers(0, 10**6))
def test_noise_within_tolerance_always_passes(seed):
    """Of few different values, many rows are equal or as near as the tolerance."""
    rng = np.random.default_rng(seed)
    values = rng.choice(np.float32([1, 1 + 2**-12, 2]), (12, 2))
    noise = rng.uniform(-1, 1, values.shape) * 2**-13 * (np.abs(values) + 1)
    found = rng.permutation((values + noise).astype(np.float32))
    compared = compare_sample(
        {"x": values}, {"x": found}, ToleranceOptions(), find_comparators({"x": "set"})
    )
    assert compared.outputs[0].passed, compared.outputs[0].describe()


def test_very_many_equal_rows_are_matched(compared):
    rows = np.zeros((1 << 18, 2), np.int64)
    rows[::3, 1] = 5
    assert compared("set", {"x": rows}, {"x": rows[::-1]}).passed
    assert not compared("set", {"x": rows}, {"x": rows[1:]}).passed


@pytest.mark.slow
def test_thousands_of_rows_are_matched(compared):
    """A matrix of all pairs would take a gigabyte."""
    rows = np.random.default_rng(0).normal(size=(20_000, 4)).astype(np.float32)
    found = rows[::-1] * np.float32(1 + 1e-6)
    assert compared("set", {"x": rows}, {"x": found}).passed
    assert not compared("set", {"x": rows}, {"x": found[1:]}).passed
    zeros = np.zeros((6000, 4), np.float32)
    assert compared("set", {"x": zeros}, {"x": zeros}).passed
    assert not compared("set", {"x": zeros}, {"x": zeros[1:]}).passed


BAD = {
    "comparator 'set' expects rows of numbers along the first axis, found 'x' float32 ()": {
        "x": np.float32(1)
    },
    "comparator 'set' expects outputs with the same number of rows, found 50 in 'x', 2 in 'y'": {
        "x": POINTS,
        "y": np.arange(2),
    },
}


@pytest.mark.parametrize("message", BAD)
def test_outputs_without_rows_are_refused(message):
    outputs = BAD[message]
    comparators = find_comparators({tuple(outputs): "set"})
    with pytest.raises(UsageError) as caught:
        check_comparators(comparators, [Sample({}, outputs)])
    assert str(caught.value) == message
