"""The statistics of a benchmark: agreement, ratios, and their intervals."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, strategies as st

from enginebay.authors import Latency
from enginebay_lab.measurement.benchmark_rows import Agreement, BenchmarkRow, Window
from enginebay_lab.measurement.statistics import (
    compute_quantiles,
    compute_ratio,
    describe_instability,
    engine_share,
    measure_agreement,
    select_fastest,
    typical_duration,
)


def windows(medians: list[float], first: int = 0) -> list[Window]:
    return [
        Window(round=first + n, calls=10, median=m, engine=m, calls_per_second=1 / m)
        for n, m in enumerate(medians)
    ]


def test_six_close_windows_agree() -> None:
    assert not measure_agreement([1.0] * 5, 1.0).agreed
    assert measure_agreement([1.0] * 6, 1.0).agreed
    found = measure_agreement([1.0, 1.01, 1.0, 1.019, 1.0, 1.0], 1.0)
    assert (found.agreed, found.apart, found.windows) == (True, pytest.approx(0.019), 6)
    assert not measure_agreement([1.0, 1.01, 1.0, 1.03, 1.0, 1.0], 1.0).agreed
    # One window that was disturbed does not matter among many.
    assert measure_agreement([1.0, 1.01, 1.0, 9.0, *[1.0] * 10], 1.0).agreed


@pytest.mark.parametrize(
    ("apart", "seconds", "words"),
    [
        (0.0141, 1.23, "agreed within 1.4 % after 1.2 s"),
        (0.0501, 30.2, "not agreed within 2 % after 30 s: 5 % apart"),
        (972.0, 9.6, "not agreed within 2 % after 9.6 s: 97,200 % apart"),
    ],
)
def test_agreement_in_words(apart: float, seconds: float, words: str) -> None:
    found = Agreement(agreed=apart <= 0.02, apart=apart, wanted=0.02, windows=9, seconds=seconds)
    assert found.describe() == words


@pytest.mark.parametrize("rounds", [6, 12, 60])
def test_the_interval_of_a_ratio_has_its_stated_coverage(rounds: int) -> None:
    random = np.random.default_rng(0)
    held = 0
    for _ in range(300):
        # What slows a round slows both; each has noise of its own, and none of it is symmetric.
        common = 1 + random.exponential(0.5, rounds)
        slow = 1.3 * common * random.lognormal(0, 0.1, rounds)
        quick = common * random.lognormal(0, 0.1, rounds)
        found = compute_ratio(windows(quick.tolist()), windows(slow.tolist()))
        assert found is not None
        held += found.low <= 1.3 <= found.high
    assert 0.90 <= held / 300 <= 0.99


def test_the_fastest_rows_by_the_time_for_an_item() -> None:
    def row(name: str, batch: int, low: float, median: float, high: float) -> BenchmarkRow:
        call = msgspec.structs.replace(Latency.of([median]), low=low, high=high)
        return BenchmarkRow(name=name, backend="b", batch=batch, threads=1, call=call)

    rows = [row("slow", 1, 3, 4, 5), row("near", 1, 1.1, 1.5, 2), row("first", 2, 1.8, 2, 2.4)]
    assert [row.name for row in select_fastest(rows)] == ["first", "near"]
    assert [row.name for row in select_fastest(rows[:2])] == ["near"]
    lost = BenchmarkRow(name="lost", backend="b", batch=1, threads=1)
    assert select_fastest([lost]) == []


def test_a_ratio_compares_windows_of_the_same_round() -> None:
    baseline = windows([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    own = windows([1.0, 1.5, 2.0, 2.5, 3.0, 3.5], first=1)
    found = compute_ratio(own, baseline)
    assert found is not None
    assert (found.value, found.low, found.high) == (2.0, 2.0, 2.0)


def test_fewer_than_six_rounds_have_no_ratio() -> None:
    assert compute_ratio(windows([1.0] * 5), windows([1.0] * 9)) is None


def test_quantiles_include_the_minimum_and_the_maximum() -> None:
    found = compute_quantiles([1.0, 2.0, 3.0])
    assert (len(found), found[0], found[50], found[100]) == (101, 1.0, 2.0, 3.0)


@pytest.mark.parametrize(
    ("medians", "mean", "found"),
    [
        ([1.0] * 20, 1.0, []),
        ([1.0] * 10 + [1.04] * 10, 1.0, []),
        (
            [1.0] * 10 + [1.2] * 10,
            1.0,
            ["the second half of the run was 20% slower than the first half"],
        ),
        (
            [1.2] * 10 + [1.0] * 10,
            1.0,
            ["the second half of the run was 17% faster than the first half"],
        ),
        (
            [1.0] * 6,
            3.5,
            ["the mean latency is 3.5 times the median: a few calls took most of the time"],
        ),
    ],
)
def test_unstable_figures_have_notes(medians: list[float], mean: float, found: list[str]) -> None:
    assert list(describe_instability(medians, mean, 1.0)) == found


#: Durations of calls, from a tenth of a microsecond to a quarter of an hour.
DURATIONS = st.floats(1e-7, 1e3)


@given(st.lists(DURATIONS, min_size=1, max_size=40))
def test_agreement_is_bounded_and_ignores_the_order(medians: list[float]) -> None:
    found = measure_agreement(medians, 1.0)
    assert 0 <= found.apart < math.inf
    assert found.agreed == (len(medians) >= 6 and found.apart <= found.wanted)
    assert measure_agreement(medians[::-1], 1.0) == found


@given(st.lists(DURATIONS, min_size=6, max_size=40), st.floats(0.01, 100))
def test_agreement_has_no_unit(medians: list[float], factor: float) -> None:
    apart = measure_agreement([factor * median for median in medians], 1.0).apart
    assert apart == pytest.approx(measure_agreement(medians, 1.0).apart, abs=1e-9)


@given(st.lists(st.tuples(DURATIONS, DURATIONS), min_size=6, max_size=40))
def test_a_ratio_lies_in_its_interval_and_between_its_rounds(
    pairs: list[tuple[float, float]],
) -> None:
    own, baseline = (windows(list(side)) for side in zip(*pairs, strict=True))
    found = compute_ratio(own, baseline)
    assert found is not None
    assert found.low <= found.value <= found.high
    ratios = [slow / quick for quick, slow in pairs]
    assert min(ratios) <= found.low
    assert found.high <= max(ratios)
    same = compute_ratio(own, own)
    assert same is not None
    assert (same.low, same.value, same.high) == (1, 1, 1)


@given(st.lists(DURATIONS, min_size=1, max_size=300))
def test_quantiles_rise_from_the_minimum_to_the_maximum(values: list[float]) -> None:
    found = compute_quantiles(sorted(values))
    assert len(found) == 101
    assert list(found) == sorted(found)
    assert set(found) <= set(values)
    assert (found[0], found[100]) == (min(values), max(values))


@given(st.lists(DURATIONS, min_size=1, max_size=40), DURATIONS, DURATIONS)
def test_notes_never_hold_a_number_that_is_none(
    medians: list[float], mean: float, median: float
) -> None:
    for note in describe_instability(medians, mean, median):
        assert "nan" not in note
        assert "inf" not in note


@given(
    st.lists(st.tuples(DURATIONS, st.floats(0.001, 1)), min_size=1, max_size=40),
    DURATIONS,
    st.sampled_from([1, 3]),
)
def test_the_engines_part_is_never_longer_than_the_call(
    calls: list[tuple[float, float]], clock: float, threads: int
) -> None:
    timed = typical_duration([call for call, _ in calls], threads)
    engine = typical_duration([part * call for call, part in calls], threads)
    assert 0 < engine_share(timed, engine, clock) <= 1


def test_what_timing_takes_is_not_counted_as_part_of_a_call() -> None:
    assert engine_share(timed=6.6, engine=4.0, clock=0.9) == pytest.approx(4.0 / 5.7)


def test_rounds_that_only_one_has_do_not_count() -> None:
    assert compute_ratio(windows([1.0] * 9), windows([1.0] * 9, first=5)) is None
    found = compute_ratio(windows([1.0] * 9), windows([2.0] * 9, first=3))
    assert found is not None
    assert found.value == 2


def test_a_row_with_an_empty_batch_is_not_the_fastest() -> None:
    call = Latency.of([1.0])
    empty = BenchmarkRow(name="empty", backend="b", batch=0, threads=1, call=call)
    full = BenchmarkRow(name="full", backend="b", batch=1, threads=1, call=call)
    assert select_fastest([empty, full]) == [full]
    assert select_fastest([empty]) == []
