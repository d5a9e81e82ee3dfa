"""Run something in a child process, so that its crash, hang or noise stays there.

:func:`run` starts a program, :func:`call` a Python function, :class:`Worker` one that is called
again and again. All capture what the child prints, hold it to a time limit, name the signal or exit
code it ended with, and leave no process behind: not after a time-out, not after Ctrl-C, not when
this process itself is killed.
"""

from __future__ import annotations

from enginebay.isolation.function_calls import call
from enginebay.isolation.limit import TimeLimit, check_time_limit, time_left, time_limit
from enginebay.isolation.programs import Finished, run
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
