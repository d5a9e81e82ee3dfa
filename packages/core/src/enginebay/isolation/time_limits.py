"""A common time limit for all child processes of a block, in addition to their own limits."""

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
    """A running time limit.

    Attributes:
        seconds: Its length.
        end: Its end, on the monotonic clock.
    """

    seconds: float
    end: float

    @property
    def left(self) -> float:
        """The seconds that are left; 0 after its end."""
        return max(0.0, self.end - time.monotonic())


_limit: ContextVar[TimeLimit | None] = ContextVar("_limit", default=None)


@contextmanager
def time_limit(seconds: float) -> Iterator[TimeLimit]:
    """Limit the time of all child processes that this thread starts inside the block.

    Long work in this process must call :func:`check_time_limit`.
    """
    limit = TimeLimit(seconds, time.monotonic() + seconds)
    token = _limit.set(limit)
    try:
        yield limit
    finally:
        _limit.reset(token)


def check_time_limit() -> None:
    """Raise if the time limit is over; for loops of long work in this process.

    Raises:
        ChildTimeoutError: No time is left.
    """
    limit = _limit.get()
    if limit is not None and not limit.left:
        raise ChildTimeoutError(f"it ran past the time limit of {limit.seconds:g} s")


def time_left() -> float:
    """Return the seconds that are left of the time limit; infinity without a limit.

    A converter can thereby reserve time for a second attempt.
    """
    limit = _limit.get()
    return math.inf if limit is None else limit.left


def effective_timeout(timeout: float | None) -> tuple[float | None, str]:
    """Return the shorter of a child's time limit and the block's, and its text for a message."""
    limit = _limit.get()
    if limit is not None and (timeout is None or limit.left < timeout):
        return limit.left, f"the time limit of {limit.seconds:g} s"
    return timeout, f"its time limit of {timeout:g} s" if timeout is not None else ""
