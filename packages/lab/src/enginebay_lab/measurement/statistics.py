"""Statistics of benchmark windows (groups of timed calls): their agreement, and speed ratios."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from enginebay.authors import Latency
from enginebay_lab.measurement.benchmark_rows import (
    MAX_MEAN_EXCESS,
    Agreement,
    BenchmarkRow,
    Ratio,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay_lab.measurement.benchmark_rows import Window

#: The smallest number of windows: a 95 % confidence interval of a median requires six values.
MIN_WINDOWS = 6
#: Windows agree if the confidence interval of their median is at most this fraction of the median.
MAX_INTERVAL = 0.02
#: A larger relative difference between the two halves of a run is noted.
MAX_DRIFT = 0.05


def typical_duration(durations: Sequence[float], threads: int) -> float:
    """Return the duration that stands for the calls of a window (group of timed calls).

    For one thread, it is the median: the few calls that the system interrupts do not count. Calls
    from several threads wait for each other, most of them hardly and some for long, so only their
    mean is consistent with the number of calls per second.

    Example:
        >>> typical_duration([1.0, 1.0, 4.0], threads=1), typical_duration([1.0, 1.0, 4.0], 2)
        (1.0, 2.0)
    """
    return statistics.median(durations) if threads == 1 else statistics.fmean(durations)


def engine_share(timed: float, engine: float, clock: float) -> float:
    """Return the engine's part of a call, at most 1.

    Args:
        timed: The typical duration of calls in which the engine was timed.
        engine: The typical duration of only the engine in these calls.
        clock: What timing the engine adds to a call.

    Example:
        >>> engine_share(timed=7.0, engine=3.0, clock=1.0)
        0.5
    """
    return engine / max(engine, timed - clock)


def measure_agreement(medians: Sequence[float], seconds: float) -> Agreement:
    """Return how well windows agree, measured by the confidence interval of their median latency.

    A window is a group of timed calls.

    Args:
        medians: The median latencies of all windows.
        seconds: The total duration of the windows in seconds.
    """
    # Of windows, not of single calls: a disturbance slows neighbouring calls too, so calls are not
    # independent.
    latency = Latency.of(medians)
    apart = (latency.high - latency.low) / latency.median
    return Agreement(
        agreed=len(medians) >= MIN_WINDOWS and apart <= MAX_INTERVAL,
        apart=apart,
        wanted=MAX_INTERVAL,
        windows=len(medians),
        seconds=seconds,
    )


def compute_ratio(windows: Sequence[Window], baseline: Sequence[Window]) -> Ratio | None:
    """Return a subject's speed relative to the baseline; None with fewer than six common rounds.

    In a common round, both the subject (an artifact or a PyTorch model) and the baseline have a
    window (group of timed calls). The value is the median of the ratios in all common rounds,
    because a disturbance of a round slows both. The confidence interval is that of the sign test:
    the ends are two of the ratios, and the interval holds for any distribution (Conover, Practical
    Nonparametric Statistics, 3rd edition, section 3.2). The test assumes independent rounds, so the
    interval does not cover a disturbance that lasts for many rounds and slows one subject more than
    the other.
    """
    medians = {window.round: window.median for window in baseline}
    ratios = [
        medians[window.round] / window.median for window in windows if window.round in medians
    ]
    if len(ratios) < MIN_WINDOWS:
        return None
    latency = Latency.of(ratios)
    return Ratio(latency.median, latency.low, latency.high)


def select_fastest(rows: Sequence[BenchmarkRow]) -> list[BenchmarkRow]:
    """Return the row with the shortest time per item, then the rows that are equally fast.

    A row is equally fast if its 95 % confidence interval overlaps with that of the fastest row.
    """
    spans = [
        (row.call.median / row.batch, row.call.low / row.batch, row.call.high / row.batch, row)
        for row in rows
        # The batch size is 0 if the first axis of the first input is empty.
        if row.call and row.batch > 0
    ]
    spans.sort(key=lambda span: span[0])
    return [row for _, low, _, row in spans if low <= spans[0][2]]


def compute_quantiles(ordered: Sequence[float]) -> tuple[float, ...]:
    """Return the quantiles of sorted values at 0, 1, 2 … 100 %, by nearest rank."""
    last = len(ordered) - 1
    return tuple(ordered[round(last * percent / 100)] for percent in range(101))


def describe_instability(medians: Sequence[float], mean: float, median: float) -> Iterator[str]:
    """Yield a warning for each sign that another run of the benchmark would measure other values.

    Args:
        medians: The median latencies of all windows, in order.
        mean: The mean latency of all calls.
        median: The median latency of all calls.
    """
    half = len(medians) // 2
    if half >= MIN_WINDOWS // 2:
        before, after = statistics.median(medians[:half]), statistics.median(medians[half:])
        if abs(after / before - 1) > MAX_DRIFT:
            direction = "slower" if after > before else "faster"
            share = f"{abs(after / before - 1):.0%}"
            yield f"the second half of the run was {share} {direction} than the first half"
    if mean > (1 + MAX_MEAN_EXCESS) * median:
        yield (
            f"the mean latency is {mean / median:.2g} times the median: a few calls took most of "
            "the time"
        )
