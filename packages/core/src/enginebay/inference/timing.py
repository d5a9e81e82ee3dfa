"""Durations of the engine's calls alone, without the conversions around them."""

from __future__ import annotations

import math
import statistics
import time
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: Durations that lie above a percentile, at least.
ABOVE = 2


class Timing:
    """The engine calls of one wrapper, in seconds, the warm-up calls left out.

    Args:
        warmup: The number of first calls that are not counted.
        synchronize: Waits for the device. Called before each reading of the clock, so that
            asynchronous work is counted; None where it is not to be counted.

    Attributes:
        seconds: One duration for each counted call, in order.
    """

    def __init__(self, *, warmup: int = 0, synchronize: Callable[[], None] | None = None) -> None:
        self.warmup = warmup
        self._synchronize = synchronize or (lambda: None)
        self.seconds: list[float] = []
        self._calls = 0

    def measure(
        self, execute: Callable[[Any], Sequence[Any]], feed: Mapping[str, Any]
    ) -> Sequence[Any]:
        """Run one engine call and count it."""
        self._synchronize()
        start = time.perf_counter()
        outputs = execute(feed)
        self._synchronize()
        elapsed = time.perf_counter() - start
        self._calls += 1
        if self._calls > self.warmup:
            self.seconds.append(elapsed)
        return outputs

    @property
    def count(self) -> int:
        """The number of calls that were counted."""
        return len(self.seconds)

    def statistics(self) -> Latency:
        """Summarise the counted calls.

        Raises:
            ValueError: No call was counted yet.
        """
        if not self.seconds:
            raise ValueError(f"no engine call was counted (warm-up: {self.warmup})")
        return latency(self.seconds)


class Latency(msgspec.Struct, frozen=True):
    """A summary of durations, in seconds.

    A percentile is None where fewer than two durations would lie above it: that takes 20 of them
    for the 90th and 200 for the 99th. With fewer it is the longest one or its neighbour, which
    says how unlucky one call was, not how calls are.

    Attributes:
        runs: The number of calls.
        median: Half of them took less.
        low: The lower end of the 95 % confidence interval of the median.
        high: Its upper end.
        mean: The average.
        stdev: The standard deviation.
        p90: Nine in ten took less; None of fewer than 20.
        p99: Ninety-nine in a hundred took less; None of fewer than 200.
        min: The shortest.
        max: The longest.
    """

    runs: int
    median: float
    low: float
    high: float
    mean: float
    stdev: float
    p90: float | None
    p99: float | None
    min: float
    max: float


def latency(seconds: Sequence[float]) -> Latency:
    """Summarise one duration or more.

    Example:
        >>> latency([0.1, 0.2, 0.3]).median
        0.2
    """
    ordered = sorted(seconds)
    mean = math.fsum(ordered) / len(ordered)
    low, high = median_interval(ordered)
    return Latency(
        runs=len(ordered),
        median=statistics.median(ordered),
        low=low,
        high=high,
        mean=mean,
        stdev=math.sqrt(math.fsum((each - mean) ** 2 for each in ordered) / len(ordered)),
        p90=_percentile(ordered, 90),
        p99=_percentile(ordered, 99),
        min=ordered[0],
        max=ordered[-1],
    )


def median_interval(ordered: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the median of values in ascending order.

    It is taken between two of the values themselves, whatever their distribution: their ranks are
    n/2 ± 0.98·√n, the normal approximation of the binomial (David and Nagaraja, Order Statistics,
    3rd edition, section 7.1). Of fewer than six values it is all of them, and holds less often.
    """
    n = len(ordered)
    reach = 0.98 * math.sqrt(n)
    return (
        ordered[max(0, math.floor(n / 2 - reach))],
        ordered[min(n - 1, math.ceil(n / 2 + reach))],
    )


def _percentile(ordered: Sequence[float], percent: int) -> float | None:
    """Return the nearest rank: a duration that was measured, not one in between."""
    rank = math.ceil(len(ordered) * percent / 100)
    return ordered[rank - 1] if len(ordered) - rank >= ABOVE else None
