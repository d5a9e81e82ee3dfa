"""The child that :func:`~enginebay.isolation.call` starts, and the messages between both processes.

Messages are MessagePack by msgspec: unlike JSON it keeps NaN, infinities, bytes and integer keys.
Never pickle.
"""

from __future__ import annotations

import faulthandler
import importlib
import inspect
import operator
import os
import signal
import sys
import traceback
from pathlib import PurePath
from types import GenericAlias, SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO, cast, get_type_hints

import msgspec

from enginebay import errors

if TYPE_CHECKING:
    import io
    from collections.abc import Callable


class Returned(msgspec.Struct, tag="returned"):
    """The function returned.

    Attributes:
        value: Its result, encoded.
    """

    value: bytes


class Raised(msgspec.Struct, tag="raised"):
    """The function raised.

    Attributes:
        kind: The name of the nearest class in ``enginebay.errors``; None where there is none.
        message: Its text.
        summary: Its own class and its text.
        traceback: The traceback as Python prints it.
        hint: The error's hint.
    """

    kind: str | None
    message: str
    summary: str
    traceback: str
    hint: str | None


def encode(value: Any) -> bytes:
    """Encode a value.

    Raises:
        TypeError: msgspec does not know its type; the message names it.
    """
    return msgspec.msgpack.encode(value, enc_hook=_encode_path)


def decode(data: bytes, kind: Any) -> Any:
    """Decode a value of type ``kind``.

    Raises:
        msgspec.ValidationError: The bytes hold something else; the message says where.
    """
    return msgspec.msgpack.decode(data, type=kind, dec_hook=_decode_path)


def _encode_path(value: Any) -> str | bytes:
    if isinstance(value, PurePath):
        try:
            os.fspath(value).encode()
        except UnicodeEncodeError:  # a name need not be text in this locale
            return os.fsencode(value)
        return os.fspath(value)
    raise NotImplementedError(f"values of type '{type(value).__qualname__}' cannot be sent")


def _decode_path(kind: type, value: Any) -> Any:
    if issubclass(kind, PurePath) and isinstance(value, str | bytes):
        return kind(os.fsdecode(value))
    raise NotImplementedError(f"values of type '{kind.__qualname__}' cannot be received")


def serve(function: str) -> None:
    """Call a function with the arguments on standard input, and write the reply behind them.

    Args:
        function: ``module:qualname``.
    """
    exchange = _take_standard_input()
    # After a crash in native code the reply is the Python lines that led there.
    faulthandler.enable(exchange)
    _prepare()
    request = exchange.read()
    reply: Returned | Raised
    try:
        reply = Returned(encode(_call(function, request)))
    except Exception as error:  # noqa: BLE001 - the parent gets it, whatever it is
        reply = _describe(error)
    faulthandler.disable()
    exchange.write(encode(reply))
    exchange.close()


def converse(function: str) -> None:
    """Call a function, and what it returns with each message, until the parent leaves.

    Standard input is a socket. The first message has the arguments; each one is replied to.

    Args:
        function: ``module:qualname``. It returns a function from bytes to bytes.
    """
    import socket

    faulthandler.enable(sys.stderr)
    descriptor = _take_descriptor()
    _prepare()
    with socket.socket(fileno=descriptor) as connection, connection.makefile("rwb") as exchange:
        handle: Callable[[bytes], bytes] | None = None
        while (message := receive(exchange)) is not None:
            reply: Returned | Raised
            try:
                if handle is None:
                    handle, value = _call(function, message), b""
                else:
                    value = handle(message)
                reply = Returned(value)
            except Exception as error:  # noqa: BLE001 - the parent gets it, whatever it is
                reply = _describe(error)
            exchange.write(framed(encode(reply)))
            exchange.flush()


#: The bytes before each message that passes through a socket: its length.
FRAME = 8


def framed(message: bytes) -> bytes:
    """Return a message behind its length."""
    return len(message).to_bytes(FRAME, "little") + message


def receive(exchange: io.BufferedIOBase) -> bytes | None:
    """Return the next message; None where the other side has left."""
    head = exchange.read(FRAME)
    if len(head) < FRAME:
        return None
    size = int.from_bytes(head, "little")
    message = exchange.read(size)
    return message if len(message) == size else None


def _prepare() -> None:
    for stream in (sys.stdout, sys.stderr):
        text = cast("io.TextIOWrapper", stream)  # what both are in a fresh Python
        text.reconfigure(encoding="utf-8", errors="backslashreplace")
    # An exception where Python's default would be sudden death: `finally` clauses run, so that
    # what the function itself had started ends too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def _take_standard_input() -> BinaryIO:
    """Return the file that is standard input, and leave an empty one in its place."""
    return os.fdopen(_take_descriptor(), "r+b")


def _take_descriptor() -> int:
    exchange = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return exchange


def _call(name: str, request: bytes) -> Any:
    function = _find(name)
    types = _types(function, len(decode(request, list[Any])))
    return function(*decode(request, GenericAlias(tuple, tuple(types))))


def _find(name: str) -> Callable[..., Any]:
    module, _, qualname = name.partition(":")
    imported = importlib.import_module(module)
    try:
        found: Callable[..., Any] = operator.attrgetter(qualname)(imported)
    except AttributeError as error:
        raise errors.IsolationError(f"module '{module}' has no function '{qualname}'") from error
    return found


def _types(function: Callable[..., Any], count: int) -> list[Any]:
    """Return the type of each of ``count`` positional arguments, by the annotations."""
    hints = _hints(inspect.unwrap(function))
    if not hints:  # functions written in C may not even have a signature
        return [Any] * count
    parameters = list(inspect.signature(function).parameters.values())
    names = [parameter.name for parameter in parameters]
    if parameters and parameters[-1].kind is inspect.Parameter.VAR_POSITIONAL:
        names += names[-1:] * count
    return [hints.get(name, Any) for name in names[:count]] + [Any] * (count - len(names))


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    written = dict(getattr(function, "__annotations__", {}))
    written.pop("return", None)  # never needed here, and often imported for type checkers only
    try:
        return get_type_hints(
            SimpleNamespace(__annotations__=written), getattr(function, "__globals__", {})
        )
    except NameError as error:
        raise errors.IsolationError(
            f"the arguments of '{function.__qualname__}' cannot be understood: {error}",
            hint="import the annotation's name at run time, not under TYPE_CHECKING",
        ) from error


def _describe(error: Exception) -> Raised:
    if isinstance(error, OSError) and errors.disk_error(error):  # no fault of the function
        error = errors.disk_failure(error).with_traceback(error.__traceback__)
    # NotVerifiedError carries a verdict that does not travel: the parent gets its base class.
    kinds = [
        kind.__name__
        for kind in type(error).__mro__
        if kind.__module__ == errors.__name__ and kind is not errors.NotVerifiedError
    ]
    hint = getattr(error, "hint", None) if kinds else None
    name, text = type(error).__qualname__, errors.message_of(error)
    return Raised(
        kind=kinds[0] if kinds else None,
        message=_sendable(text),
        summary=_sendable(f"{name}: {text}" if text else name),
        traceback=_sendable("".join(traceback.format_exception(error))),
        hint=hint and _sendable(str(hint)),
    )


def _sendable(text: str) -> str:
    """Remove lone surrogates, which a file's name can bring into a message."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
