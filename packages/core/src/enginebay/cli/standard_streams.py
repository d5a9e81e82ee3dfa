"""The standard streams of a command: stdout contains only the command's own data."""

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
#: Bytes of the buffer: large, so that the error of a full disk occurs at the end, and is reported.
_BUFFER = 2**20


@contextmanager
def own_stdout() -> Iterator[TextIO]:
    """In the ``with`` block, reserve stdout for the command; redirect all other output to stderr.

    Engines write to descriptor 1 in C++, and broken plugins by ``os.write``. One such line would
    make a JSON document invalid. A character that stdout's encoding does not support is escaped, as
    on stderr.

    Yields:
        The stream for the command's output. If ``sys.stdout`` does not write to descriptor 1, for
        example in a test, this stream is ``sys.stdout`` itself.
    """
    _open_closed_streams()
    before, descriptor = sys.stdout, os.dup(_STDOUT)
    # Text that was written earlier belongs on the original stdout.
    before.flush()
    if _is_descriptor(before, _STDOUT):
        sys.stdout = _make_writer(descriptor, before)
    os.dup2(_STDERR, _STDOUT)
    try:
        yield sys.stdout
    finally:
        os.dup2(descriptor, _STDOUT)
        if sys.stdout is before:
            os.close(descriptor)
        else:
            with suppress(OSError):  # the caller has flushed it
                sys.stdout.close()
        sys.stdout = before


def discard(stream: TextIO) -> None:
    """Redirect a stream to the null device, so that closing the stream raises no error."""
    # Python flushes stdout at exit, which would fail again.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _open_closed_streams() -> None:
    """Open stdout and stderr on the null device if the shell has closed them, as with ``>&-``.

    Otherwise the next opened file would get descriptor 1 or 2, and engines would print into this
    file.
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
    except (OSError, ValueError):  # the stream has no descriptor
        return False


def _make_writer(descriptor: int, like: TextIO) -> TextIO:
    return io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(descriptor, "wb"), _BUFFER),
        encoding=like.encoding,
        errors="backslashreplace",  # a locale without Unicode must not be an error
        line_buffering=like.isatty(),
    )
