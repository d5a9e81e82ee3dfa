"""This machine as an executor."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING

from enginebay_lab.executors.children import end_children
from enginebay_lab.resources import cores, free_memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

#: Between two looks for children that have just been started.
POLL_SECONDS = 0.05

#: Bytes that one task may need: a deployment of a ResNet-50 takes 1.6 GB in its processes together.
MEMORY = 2 << 30


@contextmanager
def local_executor(workers: int | None = None) -> Iterator[Executor]:
    """Run tasks on this machine; each thread here has a child process that does the work.

    Leaving the block ends tasks that still run.

    Args:
        workers: How many tasks run at once; by default as many as there are cores for, and memory.
    """
    pool = ThreadPoolExecutor(workers or fitting_workers(), thread_name_prefix="enginebay")
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        waiting = Thread(target=pool.shutdown)
        waiting.start()
        while waiting.is_alive():  # a task that has just begun may still be starting its child
            end_children()
            waiting.join(POLL_SECONDS)
        end_children()


def fitting_workers() -> int:
    """How many tasks this machine can run at once: at least one."""
    memory = free_memory()
    fitting = cores() if memory is None else memory // MEMORY
    return max(1, min(cores(), fitting))
