"""Rounds in which every artifact runs for a window, in changing order."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given, strategies as st

from enginebay_lab.measurement.interleaved_run import order_round


@given(st.integers(1, 8), st.integers(0, 60))
def test_every_subject_runs_once_in_each_round(count: int, number: int) -> None:
    subjects = list(range(count))
    assert sorted(order_round(subjects, number)) == subjects


@given(st.integers(1, 8))
def test_every_place_in_the_order_is_taken_equally_often(count: int) -> None:
    rounds = [order_round(range(count), number) for number in range(2 * count)]
    for place in range(count):
        taken = Counter(order[place] for order in rounds)
        assert set(taken.values()) == {2}
        assert len(taken) == count


@given(st.integers(2, 8))
def test_no_subject_always_follows_the_same_one(count: int) -> None:
    pairs: Counter[tuple[int, int]] = Counter()
    for number in range(2 * count):
        order = order_round(range(count), number)
        pairs.update(itertools.pairwise(order))
    assert all(pairs[b, a] == times for (a, b), times in pairs.items())


@pytest.mark.parametrize("number", [0, 1, 7])
def test_a_single_subject_is_always_first(number: int) -> None:
    assert order_round(["only"], number) == ["only"]
