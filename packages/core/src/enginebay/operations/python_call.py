"""The Python call that made an artifact, as its author wrote it."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys


def python_call() -> str:
    """Return the source of the call of the function that this is called in, and its place.

    Empty where Python does not keep the source, as of what is typed at its prompt.
    """
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
