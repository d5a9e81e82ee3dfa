"""Durations of the engine's calls alone, without the conversions around them."""

from __future__ import annotations

import math
import statistics
import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


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


class Latency(NamedTuple):
    """A summary of durations, in seconds.

    Attributes:
        runs: The number of calls.
        median: Half of them took less.
        low: The lower end of the 95 % confidence interval of the median.
        high: Its upper end.
        mean: The average.
        stdev: The standard deviation.
        p90: Nine in ten took less.
        p99: Ninety-nine in a hundred took less.
        min: The shortest.
        max: The longest.
    """

    runs: int
    median: float
    low: float
    high: float
    mean: float
    stdev: float
    p90: float
    p99: float
    min: float
    max: float


def latency(seconds: Sequence[float]) -> Latency:
    """Summarise one duration or more.

    The interval of the median is taken between two of the durations themselves, whatever their
    distribution: their ranks are n/2 ± 0.98·√n, the normal approximation of the binomial (David
    and Nagaraja, Order Statistics, 3rd edition, section 7.1).

    Example:
        >>> latency([0.1, 0.2, 0.3]).median
        0.2
    """
    ordered = sorted(seconds)
    n = len(ordered)
    reach = 0.98 * math.sqrt(n)
    return Latency(
        runs=n,
        median=statistics.median(ordered),
        low=ordered[max(0, math.floor(n / 2 - reach))],
        high=ordered[min(n - 1, math.ceil(n / 2 + reach))],
        mean=statistics.fmean(ordered),
        stdev=statistics.pstdev(ordered),
        p90=_percentile(ordered, 90),
        p99=_percentile(ordered, 99),
        min=ordered[0],
        max=ordered[-1],
    )


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the nearest rank: a duration that was measured, not one in between."""
    return ordered[math.ceil(len(ordered) * percent / 100) - 1]
