"""Tasks on any ``concurrent.futures.Executor``: data in, data out, and every fault named.

A task runs in a child process of the worker that has it, which is kept for the next one: what ends
it or hangs in it costs that task alone.
"""

from __future__ import annotations

from enginebay.executors.dask import dask_executor
from enginebay.executors.local import local_executor
from enginebay.executors.running import check_executor, run_tasks
from enginebay.executors.tasks import Fault, Outcome, Task

__all__ = [
    "Fault",
    "Outcome",
    "Task",
    "check_executor",
    "dask_executor",
    "local_executor",
    "run_tasks",
]
