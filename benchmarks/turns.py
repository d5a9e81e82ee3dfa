"""Two sides measured turn by turn, so that a slow phase of the machine slows both.

The statistics are those of ``enginebay benchmark``: the ratio is the median of the turns' ratios,
with its 95 % confidence interval.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, NamedTuple

from enginebay.authors import Latency

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Side = Callable[[int], float]


class Measured(NamedTuple):
    """Both sides of a comparison.

    Attributes:
        ours: Seconds or bytes of Enginebay's side, the median of the turns.
        bare: The other side's.
        ratio: Ours to bare: the median of the turns' ratios.
        low: The lower end of its 95 % confidence interval.
        high: The upper end.
    """

    ours: float
    bare: float
    ratio: float
    low: float
    high: float


def calls(function: Callable[..., object], *args: object) -> Side:
    """A side that makes ``n`` calls and returns the seconds of one."""

    def side(n: int) -> float:
        start = time.perf_counter()
        for _ in range(n):
            function(*args)
        return (time.perf_counter() - start) / n

    return side


def compare(ours: Side, bare: Side, *, calls_a_turn: int, turns: int, warmup: int = 3) -> Measured:
    """Run both sides in turns, each side first in every other turn.

    Args:
        ours: Enginebay's side: given a number of calls, returns the seconds of one.
        bare: The same without Enginebay.
        calls_a_turn: The number of calls per figure: some milliseconds, shorter than the time for
            which the system runs a process without interruption.
        turns: The number of pairs of figures.
        warmup: The number of first pairs that are not counted.
    """
    pairs = []
    for turn in range(warmup + turns):
        if turn % 2:
            first, second = ours(calls_a_turn), bare(calls_a_turn)
        else:
            second, first = bare(calls_a_turn), ours(calls_a_turn)
        pairs.append((first, second))
    return paired(pairs[warmup:])


def paired(pairs: Sequence[tuple[float, float]]) -> Measured:
    """Sum up pairs of figures, ours and bare, each taken in one turn."""
    ours, bare = zip(*pairs, strict=True)
    ratio = Latency.of([mine / theirs for mine, theirs in pairs])
    return Measured(
        statistics.median(ours), statistics.median(bare), ratio.median, ratio.low, ratio.high
    )
