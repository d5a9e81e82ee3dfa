"""Contestants in turns: short windows, one contestant at a time, in another order each round."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

import msgspec

from enginebay.errors import raise_if_interrupted
from enginebay_lab.measurement.contestant import Contestant
from enginebay_lab.measurement.statistics import ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from enginebay.errors import EnginebayError
    from enginebay_lab.journal import Journal
    from enginebay_lab.measurement.benchmark_rows import BenchmarkRow
    from enginebay_lab.measurement.contestant import Entrant

_T = TypeVar("_T")

#: Seconds of a window: short beside what disturbs a machine, long beside what waking one costs.
WINDOW = 0.1
#: Seconds of calls before the first window, which are not counted: clocks and caches warm up.
WARMUP = 0.5
#: Seconds of runs under an engine's profiler.
LAYERS = 2.0
#: A window or a warm-up takes no more than this share of the time.
SHARE = 1 / 30


class Heat:
    """All entries at one batch and one number of threads.

    Args:
        entries: What is measured; the first one is what the others are compared with.
        batch: How many items a call has; None for the inputs as they are.
        threads: How many threads call at once.
        timeout: Seconds that loading, and each window, may take.
        journal: The file that windows and rows are written to.
    """

    def __init__(
        self,
        entries: Sequence[Entrant],
        batch: int | None,
        threads: int,
        *,
        timeout: float,
        journal: Journal,
    ) -> None:
        self._contestants = [Contestant(each, batch, threads, timeout) for each in entries]
        self._journal = journal

    @property
    def errors(self) -> list[EnginebayError]:
        """What ended contestants, in their order."""
        return [each.error for each in self._contestants if each.error is not None]

    def run(
        self, seconds: float, on_progress: Callable[[str], None], *, layers: bool = False
    ) -> list[BenchmarkRow]:
        """Measure in rounds until each contestant's windows agree, or it has had its time.

        Whoever agrees early goes on beside the others, so that every round compares all of them.

        Args:
            seconds: How long each may take, warm-up included. Six windows are made in any case.
            on_progress: Called with a few words about what is going on.
            layers: Time the engines' layers too, afterwards.

        Raises:
            OSError: The journal cannot be written.
        """
        with ExitStack() as stack:
            for each in self._contestants:
                stack.callback(each.close)
            self._open(on_progress)
            for each in self._contestants:
                each.warm_up(min(WARMUP, seconds * SHARE))
            self._rounds(seconds, on_progress)
        rows = []
        for each in self._contestants:
            row = self._row(each)
            if layers:
                on_progress(f"timing the layers of {each.entry.name}")
                row = each.with_layers(row, min(seconds, LAYERS))
            self._journal.append({"row": row})
            rows.append(row)
        return rows

    def _open(self, on_progress: Callable[[str], None]) -> None:
        """Load one after the other, so that none slows another one's loading."""
        with TemporaryDirectory(prefix="enginebay-benchmark-") as folder:
            for number, each in enumerate(self._contestants):
                on_progress(f"loading {each.entry.name}")
                each.open(Path(folder) / f"{number}.npz")

    def _rounds(self, seconds: float, on_progress: Callable[[str], None]) -> None:
        left, window = seconds * (1 - SHARE), min(WINDOW, seconds * SHARE)
        number = 0
        while any(each.may_go_on(left) and not each.agrees for each in self._contestants):
            on_progress(f"round {number + 1}")
            for each in in_turn(self._contestants, number):
                raise_if_interrupted()
                if each.may_go_on(left) and (found := each.measure(number, window)):
                    self._journal.append(
                        {
                            "name": each.entry.name,
                            "batch": each.batch,
                            "threads": each.threads,
                            "window": found,
                        }
                    )
            number += 1

    def _row(self, contestant: Contestant) -> BenchmarkRow:
        row, first = contestant.row(), self._contestants[0]
        if contestant is first or not (contestant.agrees and first.agrees):
            return row
        return msgspec.structs.replace(row, ratio=ratio(contestant.windows, first.windows))


def in_turn(contestants: Sequence[_T], number: int) -> list[_T]:
    """Order a round: each has another first one, and every other turn the opposite direction.

    Example:
        >>> [in_turn("abc", number) for number in (0, 1, 3)]
        [['a', 'b', 'c'], ['b', 'c', 'a'], ['c', 'b', 'a']]
    """
    first = number % len(contestants)
    order = [*contestants[first:], *contestants[:first]]
    return order[::-1] if number // len(contestants) % 2 else order
