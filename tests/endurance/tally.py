"""Work in several threads: its errors, and the growth of memory."""

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

#: The number of equal parts of the work. Memory is measured after each; the first part warms up:
#: after it each thread has its own arena of the allocator, and caches are full.
PARTS = 6
#: The allowed growth in bytes: 50 for each of the 83,000 measured calls of a whole run, less than
#: half of the head of a NumPy array. A short run only detects that whole arrays stay in memory.
FLAT = 4 * 2**20


@dataclass
class Tally:
    """The outcomes of calls or contexts, in all threads.

    Attributes:
        count: The number of calls or contexts.
        wrong: Outputs that differ in any bit from those of the same input in one thread; calls
            whose result does not match the contexts of their own thread.
        aliased: Outputs that share memory with an input or with another output, or that changed
            after later calls; inputs that changed.
        leaked: Functions, modules and modes of torch that differ from before.
        raised: Calls and contexts that raised.
        growth: Bytes of memory that the process has at the end and had not after the first part.
        kept: The growth that repeats: the median part's bytes, times the number of parts. An
            infer request that is created late, at a new maximum of simultaneous calls, is in a
            single part and does not count.
        notes: The first few errors, in words.
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
        """True if no check failed."""
        return self.kept <= FLAT and not (self.wrong or self.aliased or self.leaked or self.raised)

    def add(self, what: str, number: int = 1, note: str = "") -> None:
        """Add to a counter; safe for several threads."""
        with self._lock:
            setattr(self, what, getattr(self, what) + number)
            if note and len(self.notes) < 10:
                self.notes.append(f"{what}: {note}")


def resident() -> int:
    """Return the bytes of memory of this process after a garbage collection."""
    gc.collect()
    return psutil.Process().memory_info().rss


def in_threads(tally: Tally, threads: int, work: Callable[[int], Iterator[object]]) -> None:
    """Do some work in several threads and measure the growth of memory.

    Args:
        tally: Receives the figures.
        threads: The number of threads.
        work: Receives the thread's number, and yields PARTS times, after equal parts of its work.
            At each yield the threads wait for each other.
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
