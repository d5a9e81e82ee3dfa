"""Work in several threads: what went wrong, and whether it kept memory."""

from __future__ import annotations

import gc
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable

#: The work before memory is measured for the first time, as a part of all: by then each thread has
#: its own arena of the allocator, an engine has a request and its buffers for each, and caches
#: are full.
WARM_UP = 0.2
#: Bytes that memory may grow by. The allocator's own doing is up to 2 MiB; to keep no more than a
#: NumPy array's head for each call, 112 bytes, is 8.5 MiB in the 80,000 calls that are measured,
#: and so is a context of 16,000, which is 600 bytes and more. In a short run the bound finds what
#: keeps the arrays themselves.
FLAT = 8 * 2**20


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
        notes: The first few of what went wrong, in words.
    """

    count: int = 0
    wrong: int = 0
    aliased: int = 0
    leaked: int = 0
    raised: int = 0
    growth: int = 0
    notes: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def is_clean(self) -> bool:
        """True where nothing went wrong."""
        return self.growth <= FLAT and not (
            self.wrong or self.aliased or self.leaked or self.raised
        )

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


def in_threads(threads: int, work: Callable[[int, Callable[[], object]], None]) -> int:
    """Do some work in several threads and return the bytes of memory that it kept.

    Args:
        threads: The number of threads.
        work: Gets the thread's number and a function that it calls twice: after warming up, and
            at the end. All threads wait for each other there, and memory is measured.
    """
    measured: list[int] = []
    barrier = threading.Barrier(threads, action=lambda: measured.append(resident()))
    pool = [threading.Thread(target=work, args=(n, barrier.wait)) for n in range(threads)]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()
    before, after = measured
    return after - before
