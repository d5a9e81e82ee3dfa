"""Runs tasks on this machine: an executor of threads, each of which calls a child process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING

from enginebay.environment import count_cores
from enginebay_lab.executors.child_pool import end_children
from enginebay_lab.resources import free_memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

#: The interval of the search for children that were started during shutdown.
POLL_SECONDS = 0.05

#: Memory for one task: deploying a ResNet-50 takes 1.6 GB (measured, all its processes together).
TASK_BYTES = 2 << 30


@contextmanager
def local_executor(workers: int | None = None) -> Iterator[Executor]:
    """Yield an executor that runs tasks on this machine, each in a child process.

    Tasks that still run when the context manager exits are killed.

    Args:
        workers: The number of tasks that run at once; by default as many as the cores and the free
            memory allow.
    """
    pool = ThreadPoolExecutor(workers or default_worker_count(), thread_name_prefix="enginebay")
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        waiting = Thread(target=pool.shutdown)
        waiting.start()
        # A task that has just started may be starting its child: end children until none is left.
        while waiting.is_alive():
            end_children()
            waiting.join(POLL_SECONDS)
        end_children()


def default_worker_count() -> int:
    """Return the number of tasks that this machine can run at once; at least 1."""
    memory = free_memory()
    fitting = count_cores() if memory is None else memory // TASK_BYTES
    return max(1, min(count_cores(), fitting))
