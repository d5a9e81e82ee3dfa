"""Calls of a Python function in a fresh Python process."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, NoReturn, TypeVar, cast

import msgspec

from enginebay import errors
from enginebay.errors import IsolationError
from enginebay.isolation.child import Raised, Returned, decode_value, encode_value
from enginebay.isolation.programs import Finished, crash_error, run_to_end

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

# sys.path is set before any import: plugins, and Enginebay itself, may be on the parent's only.
_BOOT = """\
import sys
_, function, *sys.path = sys.argv
del sys.argv[1:]
from enginebay.isolation.child import {serve}, show_log
{log}{serve}(function)
"""


def call(
    function: str,
    /,
    *args: object,
    timeout: float | None,
    result_type: type[T],
    on_line: Callable[[str], None] | None = None,
    subject: str = "",
) -> T:
    """Call a function in a fresh Python process, which imports only the function's module.

    The child process has this process's ``sys.path``, environment and working directory, but not
    its ``__main__``: a script needs no ``if __name__ == "__main__"``. The arguments and the result
    are encoded as MessagePack, which supports paths and all types that msgspec supports.

    Args:
        function: The function's name, ``module:qualname``. The arguments are decoded to their
            annotated types, which must be importable at run time.
        *args: The positional arguments.
        timeout: The time limit in seconds, which includes imports; None for no limit.
        result_type: The type of the result.
        on_line: A function that is called with each printed line, as in :func:`run`.
        subject: The name of the child process in error messages, such as ``the engine``; by default
            the function's name.

    Returns:
        The function's result.

    Raises:
        EnginebayError: The function raised this error, with the same class, message and hint. A
            class that is not in ``enginebay.errors``, and ``NotVerifiedError``, are replaced by
            their nearest base class.
        IsolationError: The function raised another exception, which the message names, with the
            traceback of the child process in its notes; or an argument or the result cannot be
            encoded.
        ChildCrashedError: The function ended its process: by a signal, ``sys.exit`` or
            ``os._exit``.
        ChildTimeoutError: The function exceeded its time limit. Its process was ended, with all
            processes that it had started.

    Example:
        >>> call("math:hypot", 3.0, 4.0, timeout=60, result_type=float)
        5.0
    """
    import tempfile  # here, so that the child, which imports this module too, starts faster

    subject = subject or f"'{function}'"
    request = encode_arguments(function, args)
    # The child reads its standard input and appends the reply to it. Its two outputs are the log,
    # so that nothing that an engine prints can get into the reply. The file has no name: it
    # disappears with the last process that has it open.
    with tempfile.TemporaryFile() as exchange:
        exchange.write(request)
        exchange.seek(0)
        command = child_command(function, "serve_call")
        finished = run_to_end(command, [function], timeout, on_line, subject, stdin=exchange)
        exchange.seek(len(request))
        reply = _read_reply(exchange.read(), finished, subject)
    if isinstance(reply, Raised):
        raise_from_child(subject, reply)
    return _decode_result(subject, reply, result_type)


def child_command(function: str, serve: str) -> list[str]:
    """Return the command line of a child process that calls a function for its parent.

    Args:
        function: The function's name, ``module:qualname``.
        serve: The name of the function in ``child.py`` that receives the arguments and calls
            ``function``: ``serve_call`` or ``serve_messages``.
    """
    # -P: the working directory must not shadow a module before sys.path is set.
    # -u: a line in a buffer would be lost in a crash.
    path = [entry for entry in sys.path if isinstance(entry, str)]
    shows_log = logging.getLogger("enginebay.isolation").isEnabledFor(logging.DEBUG)
    boot = _BOOT.format(log="show_log(); " if shows_log else "", serve=serve)
    return [sys.executable, "-P", "-u", "-c", boot, function, *path]


def encode_arguments(function: str, args: tuple[object, ...]) -> bytes:
    """Return a function's arguments as MessagePack for the child process.

    Raises:
        IsolationError: The type of an argument is not supported.
    """
    try:
        return encode_value(args)
    except (TypeError, NotImplementedError, ValueError, OverflowError) as error:
        raise IsolationError(f"invalid argument of '{function}': {error}") from error


def _read_reply(data: bytes, finished: Finished, subject: str) -> Returned | Raised:
    try:
        reply: Returned | Raised = decode_value(data, Returned | Raised)
    except msgspec.DecodeError:
        error = crash_error(finished, " before it returned", subject)
        if data:  # the traceback of faulthandler
            error.add_note(f"In the child process:\n{data.decode(errors='replace')}")
        raise error from None
    if isinstance(reply, Returned) and finished.exit_code:
        raise crash_error(finished, " after it had returned", subject)
    return reply


def raise_from_child(subject: str, raised: Raised) -> NoReturn:
    """Raise the exception that a function raised in its child process; see :func:`call`."""
    error = (
        getattr(errors, raised.kind)(raised.message, hint=raised.hint)
        if raised.kind
        else IsolationError(f"{subject} raised {raised.summary}")
    )
    error.add_note(f"In the child process:\n{raised.traceback}")
    raise error


def _decode_result(subject: str, returned: Returned, result_type: type[T]) -> T:
    try:
        return cast("T", decode_value(returned.value, result_type))
    except msgspec.ValidationError as error:
        raise IsolationError(f"{subject} returned the wrong type: {error}") from error
