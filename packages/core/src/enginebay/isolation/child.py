"""The code that the child process of ``call`` or ``Worker`` runs, and the messages to its parent.

Messages are MessagePack, which unlike JSON supports NaN, infinities, bytes and integer keys. Pickle
is never used, since loading it would execute any code from an untrusted child process.
"""

from __future__ import annotations

import atexit
import faulthandler
import gc
import importlib
import inspect
import logging
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
    """Reply of a child process whose function has returned.

    Attributes:
        value: The encoded result.
    """

    value: bytes


class Raised(msgspec.Struct, tag="raised"):
    """Reply of a child process whose function has raised an exception.

    Attributes:
        kind: The name of the exception's nearest base class in ``enginebay.errors``; None if
            that module defines no base class of the exception.
        message: The exception's message.
        summary: The exception's class and message.
        traceback: The traceback as Python prints it.
        hint: The hint of an Enginebay error; None if it has none.
    """

    kind: str | None
    message: str
    summary: str
    traceback: str
    hint: str | None


def show_log() -> None:
    """Show on stderr what Enginebay logs at any level: the flag ``-v``, also in child processes."""
    logging.basicConfig(format="%(name)s: %(message)s")
    logging.getLogger("enginebay").setLevel(logging.DEBUG)


def encode_value(value: object) -> bytes:
    """Return a value as MessagePack; paths are supported too.

    Raises:
        NotImplementedError: The value's type, which the message names, is not supported.
    """
    return msgspec.msgpack.encode(value, enc_hook=_encode_path)


def decode_value(data: bytes, kind: Any) -> Any:
    """Return the value of type ``kind`` that MessagePack data contains.

    Raises:
        msgspec.ValidationError: The data is of another type. The message has the path of the
            wrong value inside the data.
    """
    return msgspec.msgpack.decode(data, type=kind, dec_hook=_decode_path)


def _encode_path(value: object) -> str | bytes:
    if isinstance(value, PurePath):
        try:
            os.fspath(value).encode()
        except UnicodeEncodeError:  # a file's name may be bytes that are not text in this locale
            return os.fsencode(value)
        return os.fspath(value)
    kind = type(value).__qualname__
    raise NotImplementedError(f"values of type '{kind}' cannot be encoded as MessagePack")


def _decode_path(kind: type, value: Any) -> Any:
    if issubclass(kind, PurePath) and isinstance(value, str | bytes):
        return kind(os.fsdecode(value))
    name = kind.__qualname__
    raise NotImplementedError(f"values of type '{name}' cannot be decoded from MessagePack")


def serve_call(function: str) -> None:
    """Call a function with arguments from a file at standard input; append the reply to the file.

    Args:
        function: The function's name, ``module:qualname``.
    """
    exchange = _take_standard_input()
    # After a crash in native code the file holds a Python traceback instead of a reply.
    faulthandler.enable(exchange)
    _prepare_process()
    request = exchange.read()
    reply: Returned | Raised
    try:
        reply = Returned(encode_value(_call_by_name(function, request)))
    except Exception as error:  # noqa: BLE001 - the parent gets it, whatever it is
        reply = _describe_error(error)
    faulthandler.disable()  # a later crash must not write into the reply
    exchange.write(encode_value(reply))
    exchange.close()


def serve_messages(function: str) -> None:
    """Call a function that returns a message handler, then pass each later message to the handler.

    Standard input is a socket. The first message contains the function's arguments. Each message,
    including the first, gets a reply. The loop ends when the parent disconnects.

    Args:
        function: The function's name, ``module:qualname``. The handler that it returns is a
            function from bytes to bytes.
    """
    import socket

    faulthandler.enable(sys.stderr)
    descriptor = _take_descriptor()
    _prepare_process()
    with socket.socket(fileno=descriptor) as connection, connection.makefile("rwb") as exchange:
        handle: Callable[[bytes], bytes] | None = None
        while (message := receive_message(exchange)) is not None:
            reply: Returned | Raised
            try:
                if handle is None:
                    handle, value = _call_by_name(function, message), b""
                else:
                    value = handle(message)
                reply = Returned(value)
            except Exception as error:  # noqa: BLE001 - the parent gets it, whatever it is
                reply = _describe_error(error)
            exchange.write(frame_message(encode_value(reply)))
            exchange.flush()


#: The size in bytes of the length that precedes each message on a socket.
LENGTH_BYTES = 8


def frame_message(message: bytes) -> bytes:
    """Return the message, preceded by its length as 8 bytes."""
    return len(message).to_bytes(LENGTH_BYTES, "little") + message


def receive_message(exchange: io.BufferedIOBase) -> bytes | None:
    """Return the next message from the parent; None if the parent has disconnected."""
    head = exchange.read(LENGTH_BYTES)
    if len(head) < LENGTH_BYTES:
        return None
    size = int.from_bytes(head, "little")
    message = exchange.read(size)
    return message if len(message) == size else None


def _prepare_process() -> None:
    for stream in (sys.stdout, sys.stderr):
        text = cast("io.TextIOWrapper", stream)  # true in a fresh Python
        # The parent reads UTF-8, and no print may fail.
        text.reconfigure(encoding="utf-8", errors="backslashreplace")
    atexit.register(gc.freeze)  # as for a command: Python's end scans all objects several times
    # Raise SystemExit: by default SIGTERM ends Python without running `finally` clauses, which
    # end the processes that the function has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def _take_standard_input() -> BinaryIO:
    """Return the file at standard input, and redirect standard input to the null device."""
    return os.fdopen(_take_descriptor(), "r+b")


def _take_descriptor() -> int:
    exchange = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return exchange


def _call_by_name(name: str, request: bytes) -> Any:
    function = _find_function(name)
    # Decoded twice, since the number of arguments is needed for their types.
    types = _argument_types(function, len(decode_value(request, list[Any])))
    return function(*decode_value(request, GenericAlias(tuple, tuple(types))))


def _find_function(name: str) -> Callable[..., Any]:
    module, _, qualname = name.partition(":")
    imported = importlib.import_module(module)
    try:
        function: Callable[..., Any] = operator.attrgetter(qualname)(imported)
    except AttributeError as error:
        raise errors.IsolationError(f"module '{module}' has no function '{qualname}'") from error
    return function


def _argument_types(function: Callable[..., Any], count: int) -> list[Any]:
    hints = _argument_hints(inspect.unwrap(function))
    if not hints:  # some functions written in C have no signature
        return [Any] * count
    parameters = list(inspect.signature(function).parameters.values())
    names = [parameter.name for parameter in parameters]
    # All further arguments have the type of *args.
    if parameters and parameters[-1].kind is inspect.Parameter.VAR_POSITIONAL:
        names += names[-1:] * count
    return [hints.get(name, Any) for name in names[:count]] + [Any] * (count - len(names))


def _argument_hints(function: Callable[..., Any]) -> dict[str, Any]:
    annotations = dict(getattr(function, "__annotations__", {}))
    annotations.pop("return", None)  # not needed, and often imported under TYPE_CHECKING only
    try:
        return get_type_hints(
            SimpleNamespace(__annotations__=annotations), getattr(function, "__globals__", {})
        )
    except NameError as error:
        raise errors.IsolationError(
            f"the annotations of '{function.__qualname__}' cannot be resolved: {error}",
            hint="import the annotation's name at run time, not under TYPE_CHECKING",
        ) from error


def _describe_error(error: Exception) -> Raised:
    if isinstance(error, OSError) and errors.disk_error(error):  # not the function's fault
        error = errors.disk_failure(error).with_traceback(error.__traceback__)
    # The verdict of a NotVerifiedError is not transmitted: the parent gets its base class.
    kinds = [
        kind.__name__
        for kind in type(error).__mro__
        if kind.__module__ == errors.__name__ and kind is not errors.NotVerifiedError
    ]
    hint = getattr(error, "hint", None) if kinds else None
    name, text = type(error).__qualname__, errors.message_of(error)
    return Raised(
        kind=kinds[0] if kinds else None,
        message=_escape_surrogates(text),
        summary=_escape_surrogates(f"{name}: {text}" if text else name),
        traceback=_escape_surrogates("".join(traceback.format_exception(error))),
        hint=hint and _escape_surrogates(str(hint)),
    )


def _escape_surrogates(text: str) -> str:
    # The name of a file may have lone surrogates, which UTF-8 cannot encode.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
