"""Two sides measured turn by turn, so that what slows the machine slows both."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Side = Callable[[int], float]


class Measured(NamedTuple):
    """Seconds a call of both sides in undisturbed turns."""

    ours: float
    bare: float

    @property
    def ratio(self) -> float:
        """Ours to bare."""
        return self.ours / self.bare


def calls(function: Callable[..., object], *args: object) -> Side:
    """A side that makes ``n`` calls and returns the seconds of one."""

    def side(n: int) -> float:
        start = time.perf_counter()
        for _ in range(n):
            function(*args)
        return (time.perf_counter() - start) / n

    return side


def compare(ours: Side, bare: Side, *, calls_a_turn: int, turns: int, warmup: int = 3) -> Measured:
    """Run both sides in turns, either of them first in every other one.

    Args:
        ours: Enginebay's side: given a number of calls, returns the seconds of one.
        bare: The same without Enginebay.
        calls_a_turn: How many calls make one figure: some milliseconds' worth, shorter than the
            time for which the system leaves a process alone.
        turns: How many pairs of figures.
        warmup: How many first pairs are not counted.
    """
    pairs = []
    for turn in range(warmup + turns):
        if turn % 2:
            first, second = ours(calls_a_turn), bare(calls_a_turn)
        else:
            second, first = bare(calls_a_turn), ours(calls_a_turn)
        pairs.append((first, second))
    mine, theirs = zip(*pairs[warmup:], strict=True)
    return Measured(undisturbed(mine), undisturbed(theirs))


def undisturbed(seconds: Sequence[float]) -> float:
    """The tenth percentile: others on the machine only ever add time, and the least is luck."""
    return statistics.quantiles(seconds, n=10, method="inclusive")[0]
