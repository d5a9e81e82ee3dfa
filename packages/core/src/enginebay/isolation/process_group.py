"""A group of child processes, all of which end at the latest when this process ends."""

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

#: The time between SIGTERM and SIGKILL.
KILL_GRACE_SECONDS = 2.0
#: The time between two checks if a child has ended. They are rarely needed: the end of a child
#: closes its output, which is noticed at once, unless another process holds the output open.
POLL_SECONDS = 0.1
#: The time to wait for the rest of the output if a process that left the group holds it open.
DRAIN_SECONDS = 0.2
#: The number of characters stored from the start and from the end of a child's output. A converter
#: that prints a weight tensor must not fill the parent's memory.
END_CHARACTERS = 256 * 1024

# The guard leads the group and waits until its standard input closes, which happens however this
# process ends, SIGKILL included. It also reserves the group's number: if the child itself led the
# group, its number could be reused for another group before we send a signal.
_GUARD = """\
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.read(0, 1)
os.killpg(0, signal.SIGKILL)
"""


class ProcessGroup:
    """Context manager that starts processes in a group, and ends all of them on exit.

    A process that has moved itself to another group or session is not ended.
    """

    def __enter__(self) -> ProcessGroup:
        # -I and -S: without site-packages it starts faster, and runs no code of installed packages.
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
        # macOS returns EPERM if only zombies are left in the group.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._guard.pid, number)

    def start(self, argv: list[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a program in the group, with stdout and stderr in one pipe.

        Raises:
            OSError: The program could not be started.
        """
        return subprocess.Popen(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Unbuffered, since the selector does not see data in a buffer of Python.
            bufsize=0,
            process_group=self._guard.pid,
            **options,
        )


class OutputLog:
    r"""The output of a child process; of a long output, only the start and the end are stored.

    Bytes that are not UTF-8 become ``�``; ``\r\n`` and the ``\r`` of progress bars become ``\n``.

    Args:
        on_line: A function that is called with each complete line, without its line break.

    Example:
        >>> log = OutputLog(print)
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
        """Append a chunk of bytes; ``final`` is True for the last chunk."""
        text = self._decoder.decode(data, final)
        self._store_ends(text)
        *lines, self._line = (self._line + text).split("\n")
        # A line without an end must not fill the memory.
        if self._line and (final or len(self._line) > END_CHARACTERS):
            lines.append(self._line)
            self._line = ""
        for line in lines:
            self._on_line(line)

    def mute(self) -> None:
        """Stop calling ``on_line``."""
        self._on_line = lambda _: None

    def text(self) -> str:
        """Return the whole output, or only its start and its end if it is long."""
        if not self._left_out:
            return self._head + self._tail
        return f"{self._head}\n[… {self._left_out} characters left out …]\n{self._tail}"

    def _store_ends(self, text: str) -> None:
        missing = END_CHARACTERS - len(self._head)
        self._head += text[:missing]
        self._tail += text[missing:]
        surplus = max(0, len(self._tail) - END_CHARACTERS)
        self._tail = self._tail[surplus:]
        self._left_out += surplus


def follow_output(process: subprocess.Popen[bytes], log: OutputLog, seconds: float | None) -> bool:
    """Read a child's output for at most ``seconds``; return True if the child has ended."""
    deadline = None if seconds is None else time.monotonic() + seconds
    for is_open in _feed_chunks(process.stdout, log, deadline):
        if process.poll() is not None:
            return True
        if not is_open:
            return _wait_for_end(process, deadline)
    return process.poll() is not None


def drain_output(process: subprocess.Popen[bytes], log: OutputLog) -> None:
    """Read the rest of the output of a child that has ended."""
    for is_open in _feed_chunks(process.stdout, log, time.monotonic() + DRAIN_SECONDS):
        if not is_open:
            break
    log.feed(b"", final=True)


def _feed_chunks(
    stream: IO[bytes] | None, log: OutputLog, deadline: float | None
) -> Iterator[bool]:
    """Feed a child's output to the log; after each chunk, yield False if the output has ended.

    While the output is open, yield True after each chunk, and after POLL_SECONDS without a chunk.
    """
    assert stream is not None
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while (left := _seconds_left(deadline, POLL_SECONDS)) > 0:
            data = stream.read(1 << 16) if selector.select(left) else None
            log.feed(data or b"")
            yield data != b""


def _wait_for_end(process: subprocess.Popen[bytes], deadline: float | None) -> bool:
    """Wait for a child that has closed its output; return True if it ends before the deadline."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(None if deadline is None else max(0, _seconds_left(deadline)))
    return process.poll() is not None


def _seconds_left(deadline: float | None, at_most: float = float("inf")) -> float:
    return at_most if deadline is None else min(at_most, deadline - time.monotonic())
