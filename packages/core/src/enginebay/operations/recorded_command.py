"""What made an artifact: the command that was typed, or the Python call as its author wrote it."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_typed = ContextVar("_typed", default="")


@contextmanager
def typed(command: str) -> Iterator[None]:
    """Let what is made in this block say that a command made it.

    Args:
        command: What to type to make it again.
    """
    before = _typed.set(command)
    try:
        yield
    finally:
        _typed.reset(before)


def python_call() -> str:
    """Return the command that was typed, else the call of the function that this is called in.

    Empty where Python does not keep the source, as of what is typed at its prompt.
    """
    if command := _typed.get():
        return command
    frame = inspect.getframeinfo(sys._getframe(2), context=0)
    place = frame.positions
    if place is None or place.lineno is None or place.end_lineno is None:
        return ""
    lines = [
        linecache.getline(frame.filename, n) for n in range(place.lineno, place.end_lineno + 1)
    ]
    if not all(lines):
        return ""
    # Offsets count bytes; the end is cut first, since both may be in one line.
    lines[-1] = lines[-1].encode()[: place.end_col_offset].decode()
    lines[0] = lines[0].encode()[place.col_offset or 0 :].decode()
    try:
        call = ast.parse("".join(lines), mode="eval")
    except SyntaxError:  # the file has changed since it was imported
        return ""
    return f"{ast.unparse(call)} in {frame.filename}, line {place.lineno}"
