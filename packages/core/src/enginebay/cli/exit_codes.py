"""Exit codes: whatever a command raises becomes one, with a line and a hint on stderr."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from enginebay.cli.standard_streams import discard, own_stdout
from enginebay.errors import (
    NOTE,
    EnginebayError,
    NotVerifiedError,
    disk_error,
    disk_failure,
    forget_interruption,
    interrupt,
    message_of,
    raise_if_interrupted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from traceback import TracebackException
    from types import FrameType
    from typing import TextIO

INTERRUPTED = 130


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP: like Ctrl-C, it passes where foreign code is called."""

    def __init__(self, number: int) -> None:
        super().__init__(f"terminated by {signal.Signals(number).name}")
        self.exit_code = 128 + number


def exit_code(arguments: list[str], command: Callable[[list[str]], int]) -> int:
    """Run a command and turn whatever it raises into an exit code.

    Args:
        arguments: The command line; ``--traceback`` and ``--json`` in it change the report.
        command: The function to run; it returns an exit code.
    """
    with own_stdout() as stdout:
        code = None
        try:
            with _signals_raised(), _short_warnings(), _exits_reported(arguments, stdout):
                code = _code_of(arguments, command)
                stdout.flush()  # a closed pipe or a full disk must raise here
                return code
        except BrokenPipeError:  # whoever read stdout has left, as ``head -1`` does
            discard(stdout)
            return 1
        except OSError as err:  # all others were reported: this is stdout, on a full disk
            discard(stdout)
            done = "; the command itself succeeded" if code == 0 else ""
            sys.stderr.write(f"error: stdout cannot be written: {err.strerror}{done}\n")
            return 1
        except KeyboardInterrupt as err:  # in the middle of the report
            return _explain(err).exit_code


def _code_of(arguments: list[str], command: Callable[[list[str]], int]) -> int:
    try:
        return _uninterrupted(arguments, command)
    except BrokenPipeError:
        raise
    except BaseException as err:  # noqa: BLE001  # the last line of defence before a bare traceback
        failure = _explain(err)
        _report(arguments, err, failure.message, failure.hint)
        return failure.exit_code


def _uninterrupted(arguments: list[str], command: Callable[[list[str]], int]) -> int:
    """Run the command; one that a signal was to end fails, whatever it returned or raised."""
    try:
        return command(arguments)
    finally:
        raise_if_interrupted()


class _Failure(NamedTuple):
    """The exit code, message and hint of an exception."""

    exit_code: int
    message: str
    hint: str | None = None


def _explain(err: BaseException) -> _Failure:
    if isinstance(err, OSError) and disk_error(err):
        err = disk_failure(err)
    if isinstance(err, EnginebayError):
        return _Failure(err.exit_code, str(err), err.hint)
    if isinstance(err, Terminated):
        return _Failure(err.exit_code, str(err))
    if isinstance(err, KeyboardInterrupt):
        return _Failure(INTERRUPTED, "interrupted")
    if isinstance(err, OSError):  # a file that may not be read: nothing unexpected
        where = f"'{err.filename}': " if err.filename else ""
        return _Failure(1, f"{where}{err.strerror or err}")
    if isinstance(err, MemoryError):
        return _Failure(1, "out of memory", "close other programs, or use a larger machine")
    message = f"unexpected {type(err).__name__}: {message_of(err)}"
    return _Failure(1, message, "run it again with --traceback, and report what it shows")


@contextmanager
def _signals_raised() -> Iterator[None]:
    """Raise at SIGTERM and SIGHUP as at Ctrl-C, so that folders and child processes go too."""
    forget_interruption()
    usual = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if (handler := signal.getsignal(number))
        in (signal.SIG_DFL, signal.default_int_handler)  # nohup's choice stands
    }
    for number in usual:
        signal.signal(number, _raise_signal)
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


@contextmanager
def _exits_reported(arguments: list[str], stdout: TextIO) -> Iterator[None]:
    """Report the ends of the process that no exception announces: ``os._exit``, a native crash.

    ``os._exit(0)`` of a plugin would look like success. Any thread's ends the process, so any
    thread's is reported; a forked child's is not the command's.
    """
    leave, process = os._exit, os.getpid()
    running = True

    def exit_reported(status: int) -> NoReturn:
        if not running or os.getpid() != process:
            leave(status)
        try:
            who = _caller(sys._getframe(1))
            err = EnginebayError(f"{who} ended the command by os._exit({status})")
            sys.stdout = stdout  # which the command may have pointed elsewhere
            _report(arguments, err, str(err), None)
            stdout.flush()
        finally:
            leave(status or EnginebayError.exit_code)

    os._exit = exit_reported
    if not faulthandler.is_enabled():
        faulthandler.enable(2, all_threads=False)  # sys.stderr may be no file
    try:
        yield
    finally:
        running, os._exit = False, leave


def _caller(frame: FrameType) -> str:
    """Return the outermost foreign function that led to a frame, and where it is."""
    ours = ("enginebay", "pluggy", "threading")
    while frame.f_back and str(frame.f_back.f_globals.get("__name__")).split(".")[0] not in ours:
        frame = frame.f_back
    return f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Show Enginebay's own warnings in one line, without the place in its source."""
    from enginebay.cli.output import styled

    usual = warnings.formatwarning

    def in_one_line(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        line: Any = None,
    ) -> str:
        if category.__module__.partition(".")[0] != "enginebay":
            return usual(message, category, filename, lineno, line)
        return f"{styled('warning:', 'red', sys.stderr)} {_one_line(str(message))}\n"

    warnings.formatwarning = in_one_line
    try:
        yield
    finally:
        warnings.formatwarning = usual


def _raise_signal(number: int, frame: FrameType | None) -> None:
    if _imports_torch(frame):
        # C++ calls Python there, and an exception out of that ends the process with SIGABRT.
        from threading import Timer

        later = Timer(0.1, os.kill, (os.getpid(), number))
        later.daemon = True
        later.start()
        return
    interrupt(KeyboardInterrupt() if number == signal.SIGINT else Terminated(number))


def _imports_torch(frame: FrameType | None) -> bool:
    """True if torch is being imported, which takes a second or two."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "torch":
            return True
        frame = frame.f_back
    return False


def _report(arguments: list[str], err: BaseException, message: str, hint: str | None) -> None:
    from enginebay.cli.output import print_json, styled

    if "--traceback" in arguments:
        import traceback

        shown = traceback.TracebackException.from_exception(err)
        _leave_hints_out(shown)
        for line in shown.format():
            sys.stderr.write(line)
    if "--json" in arguments:
        document: dict[str, Any] = {
            "error": {"type": type(err).__name__, "message": message, "hint": hint}
        }
        if isinstance(err, NotVerifiedError):
            import msgspec

            document["verification"] = msgspec.to_builtins(err.verdict)
        print_json(document)
    lines = isinstance(err, NotVerifiedError) and err.verdict.outputs
    text = message if lines else _one_line(message)
    sys.stderr.write(f"{styled('error:', 'red', sys.stderr)} {text}\n")
    if hint:
        sys.stderr.write(f"{styled('hint:', 'cyan', sys.stderr)} {_one_line(hint)}\n")


def _leave_hints_out(shown: TracebackException | None) -> None:
    """Leave out the notes with hints in Python's words: the command line has its own."""
    if shown is None:
        return
    notes = [note for note in shown.__notes__ or () if not note.startswith(NOTE)]
    shown.__notes__ = notes or None
    for other in (shown.__cause__, shown.__context__, *(shown.exceptions or ())):
        _leave_hints_out(other)


def _one_line(text: str) -> str:
    """Join the lines of an engine's message: an error has one."""
    return " ".join(filter(None, map(str.strip, text.splitlines())))
