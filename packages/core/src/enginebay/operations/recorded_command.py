"""The command line or Python call that built an artifact, for the artifact's manifest."""

from __future__ import annotations

import ast
import inspect
import linecache
import shlex
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_typed_command = ContextVar("_typed_command", default="")


@contextmanager
def typed(command: str) -> Iterator[None]:
    """Record a command line in the manifests of artifacts that the ``with`` block builds."""
    token = _typed_command.set(command)
    try:
        yield
    finally:
        _typed_command.reset(token)


def typed_with(flag: str) -> str:
    """Return the command line of the enclosing :func:`typed` block with one more flag, or ""."""
    words = shlex.split(_typed_command.get())[3:]  # without cd FOLDER &&
    return shlex.join([*words, flag]) if words else ""


def python_call() -> str:
    """Return the command line of the enclosing :func:`typed` block or, without one, a Python call.

    The Python call is the source text that calls the caller of this function, as a comment on the
    command line of this process; alone, if the call is in a notebook. It is empty if the source is
    not available, as at Python's prompt.
    """
    if command := _typed_command.get():
        return command
    # Two frames up: the caller of the function that calls this one.
    # The source text, since not all values of arguments can be written as code.
    frame = inspect.getframeinfo(sys._getframe(2), context=0)
    span = frame.positions
    if span is None or span.lineno is None or span.end_lineno is None:
        return ""
    lines = [linecache.getline(frame.filename, n) for n in range(span.lineno, span.end_lineno + 1)]
    if not all(lines):
        return ""
    # Offsets count bytes; the end is cut first, since both may be in one line.
    lines[-1] = lines[-1].encode()[: span.end_col_offset].decode()
    lines[0] = lines[0].encode()[span.col_offset or 0 :].decode()
    try:
        call = ast.parse("".join(lines), mode="eval")
    except SyntaxError:  # the file has changed since it was imported
        return ""
    text = f"{ast.unparse(call)} in {frame.filename}, line {span.lineno}"
    line = repeatable_command(sys.orig_argv, program="")
    return f"{line}  # {text}" if Path(frame.filename).is_file() else text  # in a notebook's cell


def repeatable_command(argv: Sequence[str], *more: str, program: str = "enginebay") -> str:
    """Return a command line that works from any folder, since it begins with ``cd``.

    Args:
        argv: The arguments that the user typed, which may contain relative paths.
        more: Arguments to append, such as a default that depends on the installed backends.
        program: The word before the arguments; empty if ``argv`` contains it.
    """
    words = [program, *argv, *more] if program else argv
    text = f"{shlex.join(['cd', str(Path.cwd())])} && {shlex.join(words)}"
    # A manifest is UTF-8, but a file's name may contain any bytes: escape them.
    return text.encode(errors="backslashreplace").decode()
