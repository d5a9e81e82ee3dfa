"""Work in several threads: what went wrong, and whether it kept memory."""

from __future__ import annotations

import gc
import threading
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The equal parts that all work is done in. Memory is measured after each; the first one warms up:
#: after it each thread has its own arena of the allocator, and caches are full.
PARTS = 6
#: Bytes that may be kept: 50 for each of the 83,000 calls that are measured in a whole run, less
#: than half of the head of a NumPy array. In a short run it finds what keeps the arrays themselves.
FLAT = 4 * 2**20


@dataclass
class Tally:
    """The outcomes of calls or contexts, in all threads.

    Attributes:
        count: The number of calls or contexts.
        wrong: Outputs that differ in any bit from those of the same input in one thread; calls
            that returned something other than the contexts of their own thread make of them.
        aliased: Outputs that share memory with an input or with another output, or that changed
            after later calls; inputs that changed.
        leaked: Functions, modules and modes of torch that are not what they were before.
        raised: Calls and contexts that raised.
        growth: Bytes of memory that the process has at the end and had not after the first part.
        kept: Bytes of these that are kept again and again: the median part's, for all parts. An
            infer request that is first needed late, for as many calls at once as never before, is
            in one part alone.
        notes: The first few of what went wrong, in words.
    """

    count: int = 0
    wrong: int = 0
    aliased: int = 0
    leaked: int = 0
    raised: int = 0
    growth: int = 0
    kept: int = 0
    notes: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def is_clean(self) -> bool:
        """True where nothing went wrong."""
        return self.kept <= FLAT and not (self.wrong or self.aliased or self.leaked or self.raised)

    def add(self, what: str, number: int = 1, note: str = "") -> None:
        """Count something; several threads may."""
        with self._lock:
            setattr(self, what, getattr(self, what) + number)
            if note and len(self.notes) < 10:
                self.notes.append(f"{what}: {note}")


def resident() -> int:
    """Return the bytes of memory that this process has, without what Python can let go."""
    gc.collect()
    return psutil.Process().memory_info().rss


def in_threads(tally: Tally, threads: int, work: Callable[[int], Iterator[object]]) -> None:
    """Do some work in several threads and measure the memory that it keeps.

    Args:
        tally: Gets the figures.
        threads: The number of threads.
        work: Gets the thread's number and yields PARTS times, after equal parts of its work. There
            the threads wait for each other.
    """
    measured: list[int] = []
    barrier = threading.Barrier(threads, action=lambda: measured.append(resident()))

    def run(number: int) -> None:
        for _ in work(number):
            barrier.wait()

    pool = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()
    growths = [after - before for before, after in pairwise(measured)]
    tally.growth = sum(growths)
    tally.kept = int(median(growths) * len(growths))
