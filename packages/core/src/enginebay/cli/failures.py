"""How a command fails: one line and a hint on stderr, the right exit code, nothing half-printed."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from enginebay.errors import EnginebayError, MismatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INTERRUPTED = 130


class Terminated(BaseException):
    """SIGTERM or SIGHUP. Not a SystemExit: a model's code that exits must stay apart from it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"terminated by {signal.Signals(number).name}")
        self.exit_code = 128 + number


def guarded(arguments: list[str], command: Callable[[list[str]], int]) -> int:
    """Run the command and turn whatever it raises into an exit code.

    Args:
        arguments: The command line, looked at for ``--traceback`` and ``--json``.
        command: What to run.
    """
    try:
        with _polite_ends(), _plain_warnings():
            code = _reported(arguments, command)
            sys.stdout.flush()  # what does not fit through the pipe any more must be seen here
            return code
    except BrokenPipeError:
        # The reader of our stdout has left; point it elsewhere so that Python's exit is quiet.
        _abandon_stdout()
        return 1
    except OSError as err:  # all others were reported: this is stdout, on a full disk
        _abandon_stdout()
        sys.stderr.write(f"error: stdout cannot be written: {err.strerror}\n")
        return 1


def _reported(arguments: list[str], command: Callable[[list[str]], int]) -> int:
    try:
        return command(arguments)
    except EnginebayError as err:
        _report(arguments, err, str(err), err.hint)
        return err.exit_code
    except KeyboardInterrupt as err:
        _report(arguments, err, "interrupted", None)
        return INTERRUPTED
    except Terminated as err:
        _report(arguments, err, str(err), None)
        return err.exit_code
    except SystemExit as err:  # argparse, after -h
        return err.code if isinstance(err.code, int) else 0
    except BrokenPipeError:
        raise
    except OSError as err:  # a full disk, a file that may not be read: nothing unexpected
        where = f"'{err.filename}': " if err.filename else ""
        _report(arguments, err, f"{where}{err.strerror or err}", None)
        return 1
    except MemoryError as err:
        _report(arguments, err, "out of memory", "close other programs, or use a larger machine")
        return 1
    except Exception as err:  # noqa: BLE001  # the last line of defence before a bare traceback
        message = f"unexpected {type(err).__name__}: {err}"
        _report(arguments, err, message, "run it again with --traceback, and report what it shows")
        return 1


@contextmanager
def _polite_ends() -> Iterator[None]:
    """A polite kill unwinds like Ctrl-C, so that staging folders and child processes go too."""
    numbers = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) == signal.SIG_DFL  # nohup's choice stands
    ]
    for number in numbers:
        signal.signal(number, _terminate)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show Enginebay's own warnings in one line, without the place in its source."""
    from enginebay.cli.output import styled

    usual = warnings.formatwarning

    def plain(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        line: Any = None,
    ) -> str:
        if category.__module__.partition(".")[0] != "enginebay":
            return usual(message, category, filename, lineno, line)
        return f"{styled('warning:', 'red', sys.stderr)} {_one_line(str(message))}\n"

    warnings.formatwarning = plain
    try:
        yield
    finally:
        warnings.formatwarning = usual


def _terminate(number: int, frame: Any) -> None:  # noqa: ARG001  # the signature is signal's
    raise Terminated(number)


def _abandon_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(arguments: list[str], err: BaseException, message: str, hint: str | None) -> None:
    from enginebay.cli.output import print_json, styled

    if "--traceback" in arguments:
        import traceback

        traceback.print_exception(err, file=sys.stderr)
    if "--json" in arguments:
        document: dict[str, Any] = {
            "error": {"type": type(err).__name__, "message": message, "hint": hint}
        }
        if isinstance(err, MismatchError):
            import msgspec

            document["verification"] = msgspec.to_builtins(err.verdict)
        print_json(document)
    sys.stderr.write(f"{styled('error:', 'red', sys.stderr)} {_one_line(message)}\n")
    if hint:
        sys.stderr.write(f"{styled('hint:', 'cyan', sys.stderr)} {_one_line(hint)}\n")


def _one_line(text: str) -> str:
    """An engine's message may have several lines; an error has one."""
    return " ".join(filter(None, map(str.strip, text.splitlines())))
