"""Runs of a program as a child process, with checks of its exit code and its output files."""

from __future__ import annotations

import logging
import os
import shlex
import signal
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from enginebay.errors import (
    ChildCrashedError,
    ChildTimeoutError,
    IsolationError,
    without_colours,
)
from enginebay.isolation.process_group import (
    KILL_GRACE_SECONDS,
    OutputLog,
    ProcessGroup,
    drain_output,
    follow_output,
)
from enginebay.time_limits import effective_timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_logger = logging.getLogger("enginebay.isolation")

_Error = TypeVar("_Error", bound=IsolationError)

#: The number of output lines in a message; the whole output is in the error's notes.
LAST_LINES = 5


class Finished(msgspec.Struct, frozen=True):
    """The result of a child process that has ended.

    Attributes:
        argv: The command, as messages show it.
        exit_code: The exit code, or the negative number of the signal that ended the process.
        output: stdout and stderr as one text; only its start and its end if it is very long.
        seconds: The duration of the process.
    """

    argv: tuple[str, ...]
    exit_code: int
    output: str
    seconds: float


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    timeout: float | None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    required_outputs: Iterable[str | os.PathLike[str]] = (),
    on_line: Callable[[str], None] | None = None,
) -> Finished:
    r"""Run a program to its end, without a shell and without standard input.

    Args:
        argv: The program and its arguments.
        timeout: The time limit in seconds; None for no limit.
        cwd: The program's working directory; by default that of this process.
        env: The program's whole environment; by default that of this process.
        required_outputs: Files that the program must write, relative to ``cwd``. An older file that
            was not written again counts as missing.
        on_line: A function that is called with each line of output, in this thread. By default the
            logger ``enginebay.isolation`` logs them at level DEBUG, after the program's name.

    Returns:
        The output and the duration; the exit code is 0. Processes that the program left running
        were ended.

    Raises:
        ChildCrashedError: The program ended with another exit code or with a signal.
        ChildTimeoutError: The program exceeded its time limit. The program and its children were
            ended.
        IsolationError: The program could not be started, or a required file is missing or empty.

    Example:
        >>> run(["echo", "hello"], timeout=10).output
        'hello\n'
    """
    command = [os.fspath(word) for word in argv]
    files = [Path(cwd or "") / path for path in required_outputs]
    # A file of an earlier run must not pass for one of this run.
    before = [_file_stamp(file) for file in files]
    finished = run_to_end(
        command, command, timeout, on_line, cwd=cwd, env=env, stdin=subprocess.DEVNULL
    )
    if finished.exit_code:
        raise crash_error(finished)
    for file, stamp in zip(files, before, strict=True):
        _check_output(file, stamp, finished)
    return finished


def run_to_end(
    argv: list[str],
    shown: list[str],
    timeout: float | None,
    on_line: Callable[[str], None] | None,
    subject: str = "",
    **options: object,
) -> Finished:
    """Run a child process to its end, and return the result, whatever the exit code is.

    Args:
        argv: The program and its arguments.
        shown: What messages and the result show instead of ``argv``.
        timeout: The time limit in seconds; None for no limit.
        on_line: A function that is called with each line of output; None to log the lines.
        subject: The child's name in error messages; by default the program's name.
        **options: Keyword arguments of ``subprocess.Popen``.

    Raises:
        ChildTimeoutError: The child process exceeded its time limit.
        IsolationError: The child process could not be started.
    """
    child = subject or Path(shown[0]).name
    log = OutputLog(on_line or partial(_logger.debug, "%s: %s", child))
    limit, name = effective_timeout(timeout)
    started = time.monotonic()
    with ProcessGroup() as group, start_child(group, argv, options) as process:
        ended = _follow_or_end(group, process, log, limit)
        group.signal(signal.SIGKILL)  # processes that the child left may hold the output open
        drain_output(process, log)
    seconds = time.monotonic() - started
    finished = Finished(tuple(shown), process.returncode, log.text(), seconds)
    if not ended:
        raise timeout_error(finished, name, subject)
    return finished


def crash_error(finished: Finished, when: str = "", subject: str = "") -> ChildCrashedError:
    """Build the error about a crashed child; ``when`` describes the moment of the crash."""
    ending = f"ended with {_describe_ending(finished.exit_code)}{when}"
    return _build_error(ChildCrashedError, ending, finished, subject)


def timeout_error(finished: Finished, limit: str, subject: str = "") -> ChildTimeoutError:
    """Build the error about a child that exceeded the time limit that ``limit`` describes."""
    return _build_error(ChildTimeoutError, f"ran past {limit}", finished, subject)


def start_child(
    group: ProcessGroup, argv: list[str], options: dict[str, object]
) -> subprocess.Popen[bytes]:
    """Start a child process in a group and return it; raise an IsolationError if that fails."""
    try:
        return group.start(argv, **options)
    except OSError as error:
        # The missing file may also be the working directory.
        if isinstance(error, FileNotFoundError) and error.filename == argv[0]:
            hint = "install it, or put its folder on PATH"
            raise IsolationError(f"program '{argv[0]}' is not found", hint=hint) from error
        reason = f"{error.strerror}: '{error.filename}'"
        raise IsolationError(f"program '{argv[0]}' cannot be started: {reason}") from error


def _follow_or_end(
    group: ProcessGroup, process: subprocess.Popen[bytes], log: OutputLog, timeout: float | None
) -> bool:
    try:
        ended = follow_output(process, log, timeout)
        if not ended:
            end_group(group, process, log)
    except BaseException:
        log.mute()  # on_line may be what raised
        end_group(group, process, log)
        raise
    return ended


def end_group(group: ProcessGroup, process: subprocess.Popen[bytes], log: OutputLog) -> None:
    """Send SIGTERM to a group; send SIGKILL when the child has ended or the grace time is over."""
    try:
        group.signal(signal.SIGTERM)
        follow_output(process, log, KILL_GRACE_SECONDS)
    finally:
        group.signal(signal.SIGKILL)
        process.wait()


def _describe_ending(exit_code: int) -> str:
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return signal.Signals(-exit_code).name
    except ValueError:  # a real-time signal, which has no name
        return f"signal {-exit_code}"


def _file_stamp(file: Path) -> tuple[int, int, int] | None:
    """Return properties that change when a file is written; None if there is no such file."""
    if not file.is_file():
        return None
    stat = file.stat()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _check_output(file: Path, before: tuple[int, int, int] | None, finished: Finished) -> None:
    after = _file_stamp(file)
    if after is None:
        problem = f"did not write '{file}'"
    elif file.stat().st_size == 0:
        problem = f"left '{file}' empty"
    elif after == before:
        problem = f"did not write '{file}': the existing file is older"
    else:
        return
    raise _build_error(IsolationError, f"ended with exit code 0 but {problem}", finished)


def _build_error(kind: type[_Error], ending: str, finished: Finished, subject: str = "") -> _Error:
    text = without_colours(finished.output)
    lines = [line for line in text.splitlines() if line.strip()][-LAST_LINES:]
    shown = "".join(f"\n  {line[:200]}" for line in lines)
    output = f"; its last output:{shown}" if lines else "; it printed nothing"
    subject = subject or f"'{Path(finished.argv[0]).name}'"
    error = kind(f"{subject} {ending}{output}")
    error.ending = ending
    error.add_note(f"$ {shlex.join(finished.argv)}\n{finished.output}")
    return error
