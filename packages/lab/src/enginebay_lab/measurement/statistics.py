"""The figures that stand for many windows: do they agree, how do two contestants compare."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from enginebay.authors import Latency
from enginebay_lab.measurement.benchmark_rows import Agreement, BenchmarkRow, Ratio

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay_lab.measurement.benchmark_rows import Window

#: Windows that are made however long they take: an interval of a median needs six.
FEWEST = 6
#: How close they must lie: the length of the interval of their median, as a share of it.
CLOSE = 0.02
#: How far the halves of a run may lie apart before it is said.
DRIFT = 0.05
#: How far the mean may lie above the median before it is said.
UNEVEN = 0.25


def agreement(medians: Sequence[float], seconds: float) -> Agreement:
    """Say how well windows agree.

    The length of the interval of their median shrinks as windows are added, unless the machine
    changes meanwhile. Calls within a window are too much alike to say this: whatever slows one of
    them slows its neighbours.

    Args:
        medians: Of all windows.
        seconds: How long the windows took.
    """
    found = Latency.of(medians)
    apart = (found.high - found.low) / found.median
    return Agreement(
        agreed=len(medians) >= FEWEST and apart <= CLOSE,
        apart=apart,
        wanted=CLOSE,
        windows=len(medians),
        seconds=seconds,
    )


def ratio(own: Sequence[Window], baseline: Sequence[Window]) -> Ratio | None:
    """Compare two contestants, round by round, since what slows a round slows both.

    The value is the median of the rounds' ratios. Its interval is that of the sign test, between
    two of the ratios themselves, whatever their distribution (Conover, Practical Nonparametric
    Statistics, 3rd edition, section 3.2). It takes rounds for independent, so a disturbance that
    outlasts many rounds and hits one contestant more is not in it.

    Returns:
        None where they have fewer than six rounds in common.
    """
    medians = {window.round: window.median for window in baseline}
    ratios = [medians[window.round] / window.median for window in own if window.round in medians]
    if len(ratios) < FEWEST:
        return None
    found = Latency.of(ratios)
    return Ratio(found.median, found.low, found.high)


def fastest(rows: Sequence[BenchmarkRow]) -> list[BenchmarkRow]:
    """Return the rows that are fastest within the noise, by the time for an item, the first first.

    A row is as fast as the first where the 95 % intervals of their medians overlap.
    """
    spans = [
        (row.call.median / row.batch, row.call.low / row.batch, row.call.high / row.batch, row)
        for row in rows
        if row.call and row.batch > 0
    ]
    spans.sort(key=lambda span: span[0])
    return [row for _, low, _, row in spans if low <= spans[0][2]]


def quantiles(ordered: Sequence[float]) -> tuple[float, ...]:
    """Return the values that 0, 1 … 100 % of them do not exceed: nearest ranks, as measured."""
    last = len(ordered) - 1
    return tuple(ordered[round(last * percent / 100)] for percent in range(101))


def notes(medians: Sequence[float], mean: float, median: float) -> Iterator[str]:
    """Say why figures are a poor guess of the next run's.

    Args:
        medians: Of all windows, in order.
        mean: Of all calls.
        median: Of all calls.
    """
    half = len(medians) // 2
    if half >= FEWEST // 2:
        before, after = statistics.median(medians[:half]), statistics.median(medians[half:])
        if abs(after / before - 1) > DRIFT:
            direction = "slower" if after > before else "faster"
            share = f"{abs(after / before - 1):.0%}"
            yield f"the second half was {share} {direction} than the first"
    if mean > (1 + UNEVEN) * median:
        yield f"the mean is {mean / median:.2g} times the median: few calls took most time"
