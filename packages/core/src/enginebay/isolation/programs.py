"""Run a program to its end: its output, its exit code, the files that it must write."""

from __future__ import annotations

import logging
import os
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from enginebay.errors import ChildCrashedError, ChildTimeoutError, IsolationError
from enginebay.isolation.limit import shortest
from enginebay.isolation.process_group import GRACE, Group, Log, follow, read_rest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_logger = logging.getLogger("enginebay.isolation")

_Error = TypeVar("_Error", bound=IsolationError)

#: Lines of output shown in a message; the whole output is in the error's notes.
LAST_LINES = 5


class Finished(msgspec.Struct, frozen=True):
    """A child process that has ended by itself.

    Attributes:
        argv: The command.
        exit_code: Its exit code; minus the signal's number where a signal ended it.
        output: All that it printed, to both outputs; of an enormous text the start and the end.
        seconds: Its duration.
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
        timeout: Seconds it may take; None where it may take for ever.
        cwd: Its working directory; this process's where None.
        env: Its whole environment; this process's where None.
        required_outputs: Files it must write, relative to ``cwd``. One that stood there before
            and was not written again counts as missing.
        on_line: Called with each line it prints, in this thread. Where None, the lines go to the
            logger ``enginebay.isolation`` at level DEBUG.

    Returns:
        Its output and duration. Its exit code was 0. Processes that it left behind have been ended.

    Raises:
        ChildCrashedError: It ended with another exit code or with a signal.
        ChildTimeoutError: It ran past its time limit and was ended, with all it had started.
        IsolationError: It could not be started, or a required output is missing or empty.

    Example:
        >>> run(["echo", "hello"], timeout=10).output
        'hello\n'
    """
    command = [os.fspath(word) for word in argv]
    files = [Path(cwd or "") / path for path in required_outputs]
    before = [_stamp(file) for file in files]
    finished = run_to_end(
        command, command, timeout, on_line, cwd=cwd, env=env, stdin=subprocess.DEVNULL
    )
    if finished.exit_code:
        raise crashed(finished)
    for file, stamp in zip(files, before, strict=True):
        _check_output(file, stamp, finished)
    return finished


def run_to_end(
    argv: list[str],
    shown: list[str],
    timeout: float | None,
    on_line: Callable[[str], None] | None,
    subject: str = "",
    **options: Any,
) -> Finished:
    """Run a child, whatever its exit code will be.

    Args:
        argv: The command.
        shown: The command as messages and the result show it.
        timeout: Seconds it may take.
        on_line: Called with each line it prints.
        subject: What errors call it; by default the program.
        **options: As for ``subprocess.Popen``.

    Raises:
        ChildTimeoutError: It ran past its time limit.
        IsolationError: It could not be started.
    """
    log = Log(on_line or _logger.debug)
    limit, name = shortest(timeout)
    started = time.monotonic()
    with Group() as group, start(group, argv, options) as process:
        ended = _follow_or_end(group, process, log, limit)
        group.signal(signal.SIGKILL)  # what the child left behind may hold the output open
        read_rest(process, log)
    seconds = time.monotonic() - started
    finished = Finished(tuple(shown), process.returncode, log.text(), seconds)
    if not ended:
        raise overran(finished, name, subject)
    return finished


def crashed(finished: Finished, when: str = "", subject: str = "") -> ChildCrashedError:
    """Build the error for a child that ended wrongly; ``when`` says more about the moment."""
    ending = f"ended with {_ending(finished.exit_code)}{when}"
    return _error(ChildCrashedError, ending, finished, subject)


def overran(finished: Finished, limit: str, subject: str = "") -> ChildTimeoutError:
    """Build the error for a child that was ended; ``limit`` names its time limit."""
    return _error(ChildTimeoutError, f"ran past {limit}", finished, subject)


def start(group: Group, argv: list[str], options: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start a child in a group.

    Raises:
        IsolationError: It could not be started.
    """
    try:
        return group.start(argv, **options)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and error.filename == argv[0]:
            hint = "install it, or put its folder on PATH"
            raise IsolationError(f"program '{argv[0]}' is not found", hint=hint) from error
        reason = f"{error.strerror}: '{error.filename}'"
        raise IsolationError(f"program '{argv[0]}' cannot be started: {reason}") from error


def _follow_or_end(
    group: Group, process: subprocess.Popen[bytes], log: Log, timeout: float | None
) -> bool:
    """Return True if the child ended by itself in time; it has ended in any case."""
    try:
        ended = follow(process, log, timeout)
        if not ended:
            end(group, process, log)
    except BaseException:
        log.mute()  # on_line may be what raised
        end(group, process, log)
        raise
    return ended


def end(group: Group, process: subprocess.Popen[bytes], log: Log) -> None:
    """Ask the group to end, then force it."""
    try:
        group.signal(signal.SIGTERM)
        follow(process, log, GRACE)
    finally:
        group.signal(signal.SIGKILL)
        process.wait()


def _ending(exit_code: int) -> str:
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return signal.Signals(-exit_code).name
    except ValueError:  # a real-time signal has no name of its own
        return f"signal {-exit_code}"


def _stamp(file: Path) -> tuple[int, int, int] | None:
    """Return values that change when a file is written; None where there is no such file."""
    if not file.is_file():
        return None
    stat = file.stat()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _check_output(file: Path, before: tuple[int, int, int] | None, finished: Finished) -> None:
    after = _stamp(file)
    if after is None:
        problem = f"did not write '{file}'"
    elif file.stat().st_size == 0:
        problem = f"left '{file}' empty"
    elif after == before:
        problem = f"did not write '{file}': the file there is an older one"
    else:
        return
    raise _error(IsolationError, f"ended with exit code 0 but {problem}", finished)


def _error(kind: type[_Error], ending: str, finished: Finished, subject: str = "") -> _Error:
    """Build an error with the last lines of output in its message, and all in its notes."""
    lines = [line for line in finished.output.splitlines() if line.strip()][-LAST_LINES:]
    shown = "".join(f"\n  {line[:200]}" for line in lines)
    said = f"; the last it said:{shown}" if lines else "; it said nothing"
    subject = subject or f"'{Path(finished.argv[0]).name}'"
    error = kind(f"{subject} {ending}{said}")
    error.ending = ending
    error.add_note(f"$ {shlex.join(finished.argv)}\n{finished.output}")
    return error
