"""Call a Python function in a fresh Python."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import msgspec

from enginebay import errors
from enginebay.errors import IsolationError
from enginebay.isolation.child import Raised, Returned, decode, encode
from enginebay.isolation.programs import Finished, crashed, run_to_end

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

# The path first: plugins, and Enginebay itself, may be found only through the parent's.
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
    *args: Any,
    timeout: float | None,
    result_type: type[T],
    on_line: Callable[[str], None] | None = None,
    subject: str = "",
) -> T:
    """Call a function in a fresh Python, which imports what the function needs and no more.

    It has this process's ``sys.path``, environment and working directory, but neither its modules
    nor its ``__main__``: a script needs no ``if __name__ == "__main__"``. Arguments and result
    travel as MessagePack: whatever msgspec knows, and paths.

    Args:
        function: ``module:qualname``. Its annotations say what its arguments become; they must be
            importable at run time.
        *args: Its positional arguments.
        timeout: Seconds it may take, imports included; None where it may take for ever.
        result_type: The type of its result.
        on_line: Called with each line that the function prints, as in :func:`run`.
        subject: What errors call it, for users who do not know the function: ``the engine``.

    Returns:
        The function's result.

    Raises:
        EnginebayError: The function raised it: the same class, message and hint. Of a class from
            outside ``enginebay.errors``, and of ``NotVerifiedError``, the nearest base class.
        IsolationError: The function raised anything else, which the message names; the child's
            traceback is in the notes. Or an argument or the result cannot travel.
        ChildCrashedError: It ended the process: by a signal, by ``sys.exit``, by ``os._exit``.
        ChildTimeoutError: It ran past its time limit and was ended, with all it had started.

    Example:
        >>> call("math:hypot", 3.0, 4.0, timeout=60, result_type=float)
        5.0
    """
    import tempfile  # the child, which needs this room too, never uses it

    subject = subject or f"'{function}'"
    request = encoded(function, args)
    # The child reads its standard input and writes the reply behind it. Both its outputs are the
    # log, so nothing that an engine prints can get into the reply. The file has no name: it is
    # gone with the last process that holds it.
    with tempfile.TemporaryFile() as exchange:
        exchange.write(request)
        exchange.seek(0)
        finished = run_to_end(
            child_command(function, "serve"), [function], timeout, on_line, subject, stdin=exchange
        )
        exchange.seek(len(request))
        reply = _read_reply(exchange.read(), finished, subject)
    if isinstance(reply, Raised):
        raise_again(subject, reply)
    return _result(subject, reply, result_type)


def child_command(function: str, serve: str) -> list[str]:
    """Return the command of a Python that serves a function; ``serve`` is the child's part."""
    # -P: the working directory must not shadow a module before the path is set.
    # -u: no line may wait in a buffer: it would be lost in a crash.
    path = [entry for entry in sys.path if isinstance(entry, str)]
    return [sys.executable, "-P", "-u", "-c", _BOOT.format(serve=serve), function, *path]


def encoded(function: str, args: tuple[Any, ...]) -> bytes:
    """Encode a function's arguments.

    Raises:
        IsolationError: msgspec does not know an argument's type.
    """
    try:
        return encode(args)
    except (TypeError, NotImplementedError, ValueError, OverflowError) as error:
        raise IsolationError(f"an argument of '{function}' cannot be sent: {error}") from error


def _read_reply(data: bytes, finished: Finished, subject: str) -> Returned | Raised:
    try:
        reply: Returned | Raised = decode(data, Returned | Raised)
    except msgspec.DecodeError:
        error = crashed(finished, " before it returned", subject)
        if data:
            error.add_note(f"In the child process:\n{data.decode(errors='replace')}")
        raise error from None
    if isinstance(reply, Returned) and finished.exit_code:
        raise crashed(finished, " after it had returned", subject)
    return reply


def raise_again(subject: str, raised: Raised) -> NoReturn:
    """Raise what a function raised in the child, as :func:`call` says."""
    error = (
        getattr(errors, raised.kind)(raised.message, hint=raised.hint)
        if raised.kind
        else IsolationError(f"{subject} raised {raised.summary}")
    )
    error.add_note(f"In the child process:\n{raised.traceback}")
    raise error


def _result(subject: str, returned: Returned, result_type: type[T]) -> T:
    try:
        return cast("T", decode(returned.value, result_type))
    except msgspec.ValidationError as error:
        raise IsolationError(f"{subject} returned something else: {error}") from error
