"""A time limit for all child processes started in a ``with`` block, besides each child's limit."""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from enginebay.errors import ChildTimeoutError

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class TimeLimit:
    """A time limit that has started.

    Attributes:
        seconds: The length of the time limit.
        end: The end of the time limit, as a value of ``time.monotonic()``.
    """

    seconds: float
    end: float

    @property
    def left(self) -> float:
        """The remaining seconds; 0 after the end."""
        return max(0.0, self.end - time.monotonic())


# A context variable, so that each thread has a limit of its own.
_limit: ContextVar[TimeLimit | None] = ContextVar("_limit", default=None)


@contextmanager
def time_limit(timeout: float) -> Iterator[TimeLimit]:
    """Limit the seconds of all child processes that this thread starts in the ``with`` block.

    Long computations in this process must call :func:`check_time_limit`.
    """
    limit = TimeLimit(timeout, time.monotonic() + timeout)
    token = _limit.set(limit)
    try:
        yield limit
    finally:
        _limit.reset(token)


def check_time_limit() -> None:
    """Raise an error if the time limit is over; long computations call this in their loops.

    Raises:
        ChildTimeoutError: The time limit is over.
    """
    limit = _limit.get()
    if limit is not None and not limit.left:
        raise ChildTimeoutError(f"the computation ran past the time limit of {limit.seconds:g} s")


def time_left() -> float:
    """Return the remaining seconds of the time limit, or infinity without a limit.

    A converter can call this function to reserve time for a second attempt.
    """
    limit = _limit.get()
    return math.inf if limit is None else limit.left


def effective_timeout(timeout: float | None) -> tuple[float | None, str]:
    """Return the time limit of a child process, and a description of it for messages.

    The limit is ``timeout`` or, if shorter, the rest of the limit that :func:`time_limit` set.
    """
    limit = _limit.get()
    if limit is not None and (timeout is None or limit.left < timeout):
        return limit.left, f"the time limit of {limit.seconds:g} s"
    return timeout, f"its time limit of {timeout:g} s" if timeout is not None else ""
