"""One time limit for all child processes of a block, beside their own."""

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
    """A time limit that has begun.

    Attributes:
        seconds: Its length.
        end: Its end, on the monotonic clock.
    """

    seconds: float
    end: float

    @property
    def left(self) -> float:
        """The seconds that are left; 0 once it is over."""
        return max(0.0, self.end - time.monotonic())


_limit: ContextVar[TimeLimit | None] = ContextVar("_limit", default=None)


@contextmanager
def time_limit(seconds: float) -> Iterator[TimeLimit]:
    """End every child process that this thread starts in the block, at the latest after this time.

    Long work in this process ends where it calls :func:`check_time_limit`.
    """
    limit = TimeLimit(seconds, time.monotonic() + seconds)
    token = _limit.set(limit)
    try:
        yield limit
    finally:
        _limit.reset(token)


def check_time_limit() -> None:
    """Raise once the time limit is over. For loops of long work that no child process does.

    Raises:
        ChildTimeoutError: No time is left.
    """
    limit = _limit.get()
    if limit is not None and not limit.left:
        raise ChildTimeoutError(f"it ran past the time limit of {limit.seconds:g} s")


def time_left() -> float:
    """Return the seconds that are left of the time limit; infinity where there is none.

    For a converter that tries one way, and wants time for another if that one does not end.
    """
    limit = _limit.get()
    return math.inf if limit is None else limit.left


def shortest(timeout: float | None) -> tuple[float | None, str]:
    """Return the seconds that a child may take, and the limit's name for a message."""
    limit = _limit.get()
    if limit is not None and (timeout is None or limit.left < timeout):
        return limit.left, f"the time limit of {limit.seconds:g} s"
    return timeout, f"its time limit of {timeout:g} s" if timeout is not None else ""
