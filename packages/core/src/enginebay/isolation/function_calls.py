"""Calls of a Python function in a fresh Python process."""

from __future__ import annotations

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
from enginebay.isolation.child import {serve}
{serve}(function)
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

    The child has this process's ``sys.path``, environment and working directory, but not its
    ``__main__``: a script needs no ``if __name__ == "__main__"``. Arguments and result are sent as
    MessagePack: all types that msgspec supports, and paths.

    Args:
        function: ``module:qualname``. Its arguments are decoded to their annotated types, which
            must be importable at run time.
        *args: Its positional arguments.
        timeout: The time limit in seconds, imports included; None for no limit.
        result_type: The type of its result.
        on_line: Called with each line that the function prints, as in :func:`run`.
        subject: The name in error messages for users who do not know the function, such as
            ``the engine``.

    Returns:
        The function's result.

    Raises:
        EnginebayError: The function raised it: the same class, message and hint. A class from
            outside ``enginebay.errors``, and ``NotVerifiedError``, become the nearest base class.
        IsolationError: The function raised another exception, which the message names; the child's
            traceback is in the notes. Or an argument or the result cannot be sent.
        ChildCrashedError: It ended the process: by a signal, by ``sys.exit``, by ``os._exit``.
        ChildTimeoutError: It exceeded its time limit. The child and its children were ended.

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
    """Return the command of a child; ``serve`` names the function of ``child`` that it runs."""
    # -P: the working directory must not shadow a module before sys.path is set.
    # -u: a line in a buffer would be lost in a crash.
    path = [entry for entry in sys.path if isinstance(entry, str)]
    return [sys.executable, "-P", "-u", "-c", _BOOT.format(serve=serve), function, *path]


def encode_arguments(function: str, args: tuple[object, ...]) -> bytes:
    """Encode a function's arguments.

    Raises:
        IsolationError: msgspec does not support an argument's type.
    """
    try:
        return encode_value(args)
    except (TypeError, NotImplementedError, ValueError, OverflowError) as error:
        raise IsolationError(f"an argument of '{function}' cannot be sent: {error}") from error


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
    """Raise the exception of a function in the child, as :func:`call` documents it."""
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
        raise IsolationError(f"{subject} returned another type: {error}") from error
