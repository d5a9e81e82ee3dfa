"""Child processes that isolate their caller from crashes, hangs and output.

:func:`run` runs a program, :func:`call` a Python function once, and :class:`Worker` a function many
times. All of them capture the output, apply a time limit, and report the signal or exit code.
They leave no process running, even after a time-out, after Ctrl-C, or if this process is killed.
"""

from __future__ import annotations

from enginebay.isolation.child import show_log
from enginebay.isolation.function_calls import call
from enginebay.isolation.programs import Finished, run
from enginebay.isolation.worker import Worker

__all__ = [
    "Finished",
    "Worker",
    "call",
    "run",
    "show_log",
]
