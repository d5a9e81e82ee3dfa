"""A process group that ends as a whole, at the latest when this process does, and its output."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import selectors
import signal
import subprocess
import sys
import time
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Seconds between SIGTERM and SIGKILL.
GRACE = 2.0
#: Seconds between two checks of a child whose output stays open. That is unusual: the end of a
#: child closes its output and wakes us at once, unless another process holds the output too.
LOOK = 0.1
#: Seconds to wait for the rest of the output when a process that left the group holds it open.
REST = 0.2
#: Characters kept from the start, and again from the end, of what a child prints. A converter
#: that dumps a weight tensor must not take the parent's memory with it.
KEPT = 256 * 1024

# The guard leads the group and does nothing until its standard input closes, which happens in
# whatever way this process ends, SIGKILL included. It also reserves the group's number: a group
# led by the child itself could end, and its number be given away, before we signal it.
_GUARD = """\
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.read(0, 1)
os.killpg(0, signal.SIGKILL)
"""


class Group:
    """A context that holds a process group; leaving it ends everything in the group.

    A process that moved itself to another group or session is out of reach.
    """

    def __enter__(self) -> Group:
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _GUARD],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        return self

    def __exit__(self, *exc: object) -> None:
        with self._guard:
            self.signal(signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to every process in the group."""
        # EPERM is what macOS returns for a group of which only unreaped processes are left.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._guard.pid, number)

    def start(self, argv: list[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a program in the group, with both outputs in one pipe.

        Raises:
            OSError: It could not be started.
        """
        return subprocess.Popen(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            process_group=self._guard.pid,
            **options,
        )


class Log:
    r"""Text that arrives in pieces of bytes.

    Bytes that are not UTF-8 become ``�``; ``\r\n`` and the ``\r`` of progress bars become ``\n``.

    Args:
        on_line: Called with every line as it is complete, without its line end.

    Example:
        >>> log = Log(print)
        >>> log.feed(b"one\ntw"), log.feed(b"o", final=True)
        one
        two
        (None, None)
        >>> log.text()
        'one\ntwo'
    """

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._decoder = io.IncrementalNewlineDecoder(utf8, translate=True)
        self._head = self._tail = self._line = ""
        self._left_out = 0

    def feed(self, data: bytes, *, final: bool = False) -> None:
        """Add the next bytes; ``final`` says that no more will come."""
        text = self._decoder.decode(data, final)
        self._keep(text)
        *lines, self._line = (self._line + text).split("\n")
        if self._line and (final or len(self._line) > KEPT):
            lines.append(self._line)
            self._line = ""
        for line in lines:
            self._on_line(line)

    def mute(self) -> None:
        """Pass on no more lines, but keep them."""
        self._on_line = lambda _: None

    def text(self) -> str:
        """Return the text, or its start and end with a note of how much is left out."""
        if not self._left_out:
            return self._head + self._tail
        return f"{self._head}\n[… {self._left_out} characters left out …]\n{self._tail}"

    def _keep(self, text: str) -> None:
        room = KEPT - len(self._head)
        self._head += text[:room]
        self._tail += text[room:]
        surplus = max(0, len(self._tail) - KEPT)
        self._tail = self._tail[surplus:]
        self._left_out += surplus


def follow(process: subprocess.Popen[bytes], log: Log, seconds: float | None) -> bool:
    """Read what the child prints until it has ended (True) or the time is up (False)."""
    deadline = None if seconds is None else time.monotonic() + seconds
    for open_ in _chunks(process.stdout, log, deadline):
        if process.poll() is not None:
            return True
        if not open_:
            return _ends(process, deadline)
    return process.poll() is not None


def read_rest(process: subprocess.Popen[bytes], log: Log) -> None:
    """Read what an ended child left in the pipe."""
    for open_ in _chunks(process.stdout, log, time.monotonic() + REST):
        if not open_:
            break
    log.feed(b"", final=True)


def _chunks(stream: IO[bytes] | None, log: Log, deadline: float | None) -> Iterator[bool]:
    """Feed the log as bytes come; yield, at least every LOOK seconds, True while more can come."""
    assert stream is not None
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while (left := _left(deadline, LOOK)) > 0:
            data = stream.read(1 << 16) if selector.select(left) else None
            log.feed(data or b"")
            yield data != b""


def _ends(process: subprocess.Popen[bytes], deadline: float | None) -> bool:
    """Wait for a child that closed its output."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(None if deadline is None else max(0, _left(deadline)))
    return process.poll() is not None


def _left(deadline: float | None, at_most: float = float("inf")) -> float:
    return at_most if deadline is None else min(at_most, deadline - time.monotonic())
