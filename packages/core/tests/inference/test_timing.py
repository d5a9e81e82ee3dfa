"""Statistics of durations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from enginebay.inference.timing import Latency

seconds = st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=300)


@given(seconds)
def test_statistics_are_ordered_and_measured_values(durations: list[float]) -> None:
    found = Latency.of(durations)
    assert found.min <= found.low <= found.median <= found.high <= found.max
    assert {found.min, found.low, found.high, found.max} <= set(durations)
    percentiles = [each for each in (found.p90, found.p99) if each is not None]
    assert sorted([found.median, *percentiles, found.max]) == [
        *(found.median, *percentiles, found.max)
    ]
    assert set(percentiles) <= set(durations)
    assert found.runs == len(durations)


@pytest.mark.parametrize("n", [12, 100, 1000])
def test_confidence_interval_contains_the_median_at_its_level(n: int) -> None:
    random = np.random.default_rng(0)
    # Skewed, as latencies are; the true median of this distribution is ln 2.
    found = [Latency.of(random.exponential(size=n).tolist()) for _ in range(1000)]
    held = sum(one.low <= np.log(2) <= one.high for one in found) / len(found)
    assert 0.94 <= held <= 0.985


def test_single_duration_is_its_own_median_and_interval() -> None:
    found = Latency.of([0.5])
    assert (found.low, found.median, found.high, found.stdev) == (0.5, 0.5, 0.5, 0)


@pytest.mark.parametrize(("n", "p90", "p99"), [(19, None, None), (20, 17, None), (200, 179, 197)])
def test_a_percentile_needs_two_durations_above_it(
    n: int, p90: float | None, p99: float | None
) -> None:
    found = Latency.of([float(one) for one in range(n)])
    assert (found.p90, found.p99) == (p90, p99)


def test_standard_deviation_is_that_of_the_durations() -> None:
    found = Latency.of([1.0, 2.0, 3.0, 4.0])
    assert (found.mean, found.stdev) == (2.5, pytest.approx(1.25**0.5))
