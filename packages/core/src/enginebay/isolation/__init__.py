"""Child processes that isolate their caller from crashes, hangs and output.

:func:`run` runs a program, :func:`call` a Python function once, and :class:`Worker` a Python
function that is called repeatedly. All of them capture the output, apply a time limit, report the
signal or exit code, and leave no process running: not after a time-out, not after Ctrl-C, and not
if this process itself is killed.
"""

from __future__ import annotations

from enginebay.isolation.function_calls import call
from enginebay.isolation.programs import Finished, run
from enginebay.isolation.time_limits import TimeLimit, check_time_limit, time_left, time_limit
from enginebay.isolation.worker import Worker

__all__ = [
    "Finished",
    "TimeLimit",
    "Worker",
    "call",
    "check_time_limit",
    "run",
    "time_left",
    "time_limit",
]
