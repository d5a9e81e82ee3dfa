"""Exit codes: turn any exception of a command into an exit code, a message and a hint."""

from __future__ import annotations

import faulthandler
import os
import shlex
import signal
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from enginebay.cli.standard_streams import discard, own_stdout
from enginebay.errors import (
    NOTE,
    EnginebayError,
    NotVerifiedError,
    disk_error,
    disk_failure,
    forget_interruption,
    interrupt,
    raise_if_interrupted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from traceback import TracebackException
    from types import FrameType
    from typing import TextIO

INTERRUPTED = 130


class Terminated(KeyboardInterrupt):
    """Raised at SIGTERM or SIGHUP; like Ctrl-C, it is not caught by ``except Exception``."""

    def __init__(self, number: int) -> None:
        super().__init__(f"terminated by {signal.Signals(number).name}")
        self.exit_code = 128 + number


def exit_code(arguments: list[str], command: Callable[[list[str]], int]) -> int:
    """Run a command, and return its exit code or, after an exception, the exception's exit code.

    Args:
        arguments: The command line. ``--traceback`` and ``--json`` change the error report.
        command: The function to run, which returns an exit code.
    """
    with own_stdout() as stdout:
        code = None
        try:
            with _raise_at_signals(), _shorten_warnings(), _report_exits(arguments, stdout):
                code = _run_reporting(arguments, command)
                stdout.flush()  # a closed pipe or a full disk must raise here
                return code
        except BrokenPipeError:  # the reader has closed the pipe, like ``head -1``
            discard(stdout)
            return 1
        except OSError as err:  # only from stdout: the command's own errors are caught above
            discard(stdout)
            done = "; the command itself succeeded" if code == 0 else ""
            sys.stderr.write(f"error: stdout cannot be written: {err.strerror}{done}\n")
            return 1
        except KeyboardInterrupt as err:  # during the error report
            return _explain_failure(err).exit_code


def _run_reporting(arguments: list[str], command: Callable[[list[str]], int]) -> int:
    try:
        try:
            return command(arguments)
        finally:
            raise_if_interrupted()  # a library may have caught the exception
    except BrokenPipeError:
        raise
    except BaseException as err:  # noqa: BLE001  # the last line of defence before a bare traceback
        failure = _explain_failure(err)
        _print_error(arguments, err, failure.message, failure.hint)
        return failure.exit_code


class _Failure(NamedTuple):
    exit_code: int
    message: str
    hint: str | None = None


def _explain_failure(err: BaseException) -> _Failure:
    # A full disk has a message and a hint of its own, wherever the error comes from.
    if isinstance(err, OSError) and disk_error(err):
        err = disk_failure(err)
    if isinstance(err, EnginebayError):
        return _Failure(err.exit_code, str(err), err.hint)
    if isinstance(err, Terminated):
        return _Failure(err.exit_code, str(err))
    if isinstance(err, KeyboardInterrupt):
        return _Failure(INTERRUPTED, "interrupted")
    if isinstance(err, OSError):  # such as an unreadable file: not a bug
        where = f"'{err.filename}': " if err.filename else ""
        return _Failure(1, f"{where}{err.strerror or err}")
    if isinstance(err, MemoryError):
        return _Failure(1, "out of memory", "close other programs, or use a larger machine")
    from enginebay.errors import message_of

    message = f"unexpected {type(err).__name__}: {message_of(err)}"
    return _Failure(1, message, "run the command again with --traceback, and report the traceback")


@contextmanager
def _raise_at_signals() -> Iterator[None]:
    """In the ``with`` block, raise an exception at SIGINT, SIGTERM or SIGHUP.

    Therefore cleanup code runs before the process ends.
    """
    previous = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if (handler := signal.getsignal(number))
        in (signal.SIG_DFL, signal.default_int_handler)  # do not override nohup
    }
    for number in previous:
        signal.signal(number, _raise_signal)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        # A process may go on after the command, in tests for example.
        forget_interruption()


@contextmanager
def _report_exits(arguments: list[str], stdout: TextIO) -> Iterator[None]:
    """In the ``with`` block, report on stderr if ``os._exit`` or a native crash ends this process.

    Without a report, a plugin's ``os._exit(0)`` would look like success. A call of ``os._exit`` is
    reported in every thread of this process, but not in a forked child process.
    """
    leave, process = os._exit, os.getpid()
    running = True

    def report_exit(status: int) -> NoReturn:
        if not running or os.getpid() != process:
            leave(status)
        try:
            caller = _describe_caller(sys._getframe(1))
            err = EnginebayError(f"{caller} ended the command by os._exit({status})")
            sys.stdout = stdout  # the command may have redirected it
            _print_error(arguments, err, str(err), None)
            stdout.flush()
        finally:
            # A status of 0 would look like success.
            leave(status or EnginebayError.exit_code)

    # No except clause catches a call of a plugin, a model or a metric.
    os._exit = report_exit
    if not faulthandler.is_enabled():
        faulthandler.enable(2, all_threads=False)  # sys.stderr may not be a file
    try:
        yield
    finally:
        running, os._exit = False, leave


def _describe_caller(frame: FrameType) -> str:
    """Return the name and location of the outermost plugin function among a frame's callers."""
    # Plugins are called by pluggy, and their threads by threading.
    ours = ("enginebay", "pluggy", "threading")
    while frame.f_back and str(frame.f_back.f_globals.get("__name__")).split(".")[0] not in ours:
        frame = frame.f_back
    return f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"


@contextmanager
def _shorten_warnings() -> Iterator[None]:
    """In the ``with`` block, print Enginebay's warnings as one line each, without file and line."""
    default = warnings.formatwarning

    def format_in_one_line(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        line: str | None = None,
    ) -> str:
        if category.__module__.partition(".")[0] != "enginebay":
            return default(message, category, filename, lineno, line)
        from enginebay.cli.output import styled

        return f"{styled('warning:', 'red', sys.stderr)} {_join_lines(str(message))}\n"

    warnings.formatwarning = format_in_one_line
    try:
        yield
    finally:
        warnings.formatwarning = default


def _raise_signal(number: int, frame: FrameType | None) -> None:
    if _imports_torch(frame):
        # Here C++ calls Python, and an exception would end the process with SIGABRT: retry later.
        from threading import Timer

        later = Timer(0.1, os.kill, (os.getpid(), number))
        later.daemon = True
        later.start()
        return
    interrupt(KeyboardInterrupt() if number == signal.SIGINT else Terminated(number))


def _imports_torch(frame: FrameType | None) -> bool:
    """Return True if a frame, or one of its callers, is importing torch."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "torch":
            return True
        frame = frame.f_back
    return False


def _print_error(arguments: list[str], err: BaseException, message: str, hint: str | None) -> None:
    from enginebay.cli.output import print_json, styled

    # The raw command line is searched: the error may come from parsing it.
    if "--traceback" in arguments:
        import traceback

        trace = traceback.TracebackException.from_exception(err)
        _remove_hints(trace)
        for line in trace.format():
            sys.stderr.write(line)
    if "--json" in arguments:
        from enginebay.errors import next_command

        error: dict[str, object] = {"type": type(err).__name__, "message": message, "hint": hint}
        error["next"] = next_command(hint)
        document = {"error": error, "command": shlex.join(["enginebay", *arguments])}
        if isinstance(err, NotVerifiedError):
            document["verification"] = err.verdict.to_dict()["verification"]
        print_json(document)
    # The message of a verdict has several lines on purpose; others may come from anywhere.
    lines = isinstance(err, NotVerifiedError) and err.verdict.outputs
    text = message if lines else _join_lines(message)
    sys.stderr.write(f"{styled('error:', 'red', sys.stderr)} {text}\n")
    if hint:
        sys.stderr.write(f"{styled('hint:', 'cyan', sys.stderr)} {_join_lines(hint)}\n")


def _remove_hints(trace: TracebackException | None) -> None:
    """Remove the hints from a traceback's notes: the command line prints the hint separately."""
    if trace is None:
        return
    notes = [note for note in trace.__notes__ or () if not note.startswith(NOTE)]
    trace.__notes__ = notes or None
    # Causes and the members of exception groups have notes of their own.
    for other in (trace.__cause__, trace.__context__, *(trace.exceptions or ())):
        _remove_hints(other)


def _join_lines(text: str) -> str:
    return " ".join(filter(None, map(str.strip, text.splitlines())))
