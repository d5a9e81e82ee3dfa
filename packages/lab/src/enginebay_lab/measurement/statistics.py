"""Statistics over windows: their agreement, and the ratio of two subjects' speeds."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from enginebay.authors import Latency
from enginebay_lab.measurement.benchmark_rows import Agreement, BenchmarkRow, Ratio

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay_lab.measurement.benchmark_rows import Window

#: The smallest number of windows, whatever they take: a 95 % interval of a median requires six.
MIN_WINDOWS = 6
#: The largest interval of the windows' median at which they agree, as a fraction of the median.
MAX_INTERVAL = 0.02
#: A larger difference between the two halves of a run becomes a note.
MAX_DRIFT = 0.05
#: A mean that exceeds the median by a larger fraction becomes a note.
MAX_MEAN_EXCESS = 0.25


def measure_agreement(medians: Sequence[float], seconds: float) -> Agreement:
    """Return how well windows agree: the length of the confidence interval of their median.

    Args:
        medians: The medians of all windows.
        seconds: The windows' duration in total.
    """
    # The interval shrinks as windows are added, unless the machine changes meanwhile. Single calls
    # cannot show this: a disturbance slows neighbouring calls too, so they are not independent.
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
    """Compare two subjects round by round, because a disturbance of a round slows both.

    The value is the median of the rounds' ratios. Its interval is that of the sign test, between
    two of the ratios themselves, whatever their distribution (Conover, Practical Nonparametric
    Statistics, 3rd edition, section 3.2). The interval assumes independent rounds: it does not
    cover a disturbance that lasts for many rounds and slows one subject more than the other.

    Returns:
        None if they have fewer than six rounds in common.
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
    """Return the rows with the shortest time for an item within the noise, the shortest first.

    A row is as fast as the first if the 95 % intervals of their medians overlap.
    """
    spans = [
        (row.call.median / row.batch, row.call.low / row.batch, row.call.high / row.batch, row)
        for row in rows
        if row.call and row.batch > 0
    ]
    spans.sort(key=lambda span: span[0])
    return [row for _, low, _, row in spans if low <= spans[0][2]]


def compute_quantiles(ordered: Sequence[float]) -> tuple[float, ...]:
    """Return the quantiles of sorted values at 0, 1 … 100 %, by nearest rank."""
    last = len(ordered) - 1
    return tuple(ordered[round(last * percent / 100)] for percent in range(101))


def describe_instability(medians: Sequence[float], mean: float, median: float) -> Iterator[str]:
    """Yield a note for each sign that another run would give different figures.

    Args:
        medians: The medians of all windows, in order.
        mean: The mean of all calls.
        median: The median of all calls.
    """
    half = len(medians) // 2
    if half >= MIN_WINDOWS // 2:
        before, after = statistics.median(medians[:half]), statistics.median(medians[half:])
        if abs(after / before - 1) > MAX_DRIFT:
            direction = "slower" if after > before else "faster"
            share = f"{abs(after / before - 1):.0%}"
            yield f"the second half was {share} {direction} than the first"
    if mean > (1 + MAX_MEAN_EXCESS) * median:
        yield f"the mean is {mean / median:.2g} times the median: a few calls took most of the time"
