"""The standard streams of a command: stdout is for its own data, whatever else prints meanwhile."""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

_STDOUT, _STDERR = 1, 2
#: Bytes that wait before they are written: a full disk is met, and reported, at the end.
_BUFFER = 2**20


@contextmanager
def own_stdout() -> Iterator[TextIO]:
    """Keep stdout for the command: what else writes to descriptor 1 goes to stderr.

    An engine does so in C++, a broken plugin by ``os.write``; a stray line would spoil a document.
    A character that stdout's encoding lacks becomes an escape, as on stderr.

    Yields:
        ``sys.stdout``. In a process whose stdout is something else, a test's say, it stays that.
    """
    _open_closed_streams()
    before, descriptor = sys.stdout, os.dup(_STDOUT)
    before.flush()
    if _is_descriptor(before, _STDOUT):
        sys.stdout = _writer(descriptor, before)
    os.dup2(_STDERR, _STDOUT)
    try:
        yield sys.stdout
    finally:
        os.dup2(descriptor, _STDOUT)
        if sys.stdout is before:
            os.close(descriptor)
        else:
            with suppress(OSError):  # where that matters it was flushed before
                sys.stdout.close()
        sys.stdout = before


def discard(stream: TextIO) -> None:
    """Point a stream to nowhere, so that closing it is quiet."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _open_closed_streams() -> None:
    """Open what the shell has closed, as with ``>&-``.

    Else the next file that anything opens gets its number, and an engine that prints writes there.
    """
    for number, name in ((_STDOUT, "stdout"), (_STDERR, "stderr")):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
        if not getattr(sys, name):
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))


def _is_descriptor(stream: TextIO, number: int) -> bool:
    try:
        return stream.fileno() == number
    except (OSError, ValueError):  # it has none
        return False


def _writer(descriptor: int, like: TextIO) -> TextIO:
    return io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(descriptor, "wb"), _BUFFER),
        encoding=like.encoding,
        errors="backslashreplace",
        line_buffering=like.isatty(),
    )
