"""What runs inside the child that :func:`~enginebay.isolation.call` starts."""

from __future__ import annotations

import faulthandler
import importlib
import inspect
import operator
import os
import signal
import sys
import traceback
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO, get_type_hints

from enginebay import errors
from enginebay.isolation import wire

if TYPE_CHECKING:
    from collections.abc import Callable


def serve(function: str) -> None:
    """Call a function with the arguments on standard input, and write the answer behind them.

    Args:
        function: ``module:qualname``.
    """
    exchange = _take_standard_input()
    # After a crash in native code the answer is the Python lines that led there.
    faulthandler.enable(exchange)
    _make_outputs_immediate()
    # An exception where Python's default would be sudden death: `finally` clauses run, so that
    # what the function itself had started ends too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    request = exchange.read()
    answer: wire.Returned | wire.Raised
    try:
        answer = wire.Returned(wire.encode(_call(function, request)))
    except Exception as error:  # noqa: BLE001 - it goes to the parent, whatever it is
        answer = _describe(error)
    faulthandler.disable()
    exchange.write(wire.encode(answer))
    exchange.close()


def _take_standard_input() -> BinaryIO:
    """The file that is standard input; from here on the function finds that empty."""
    exchange = os.fdopen(os.dup(0), "r+b")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return exchange


def _make_outputs_immediate() -> None:
    """Let no line wait in a buffer: it would be lost in a crash."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(  # type: ignore[union-attr] # both are text files in a fresh Python
            encoding="utf-8", errors="backslashreplace", write_through=True
        )


def _call(name: str, request: bytes) -> Any:
    function = _find(name)
    count = len(wire.decode(request, list[Any]))
    return function(*wire.decode(request, tuple[tuple(_types(function, count))]))  # type: ignore[misc] # built at run time


def _find(name: str) -> Callable[..., Any]:
    module, _, qualname = name.partition(":")
    imported = importlib.import_module(module)
    try:
        found: Callable[..., Any] = operator.attrgetter(qualname)(imported)
    except AttributeError as error:
        raise errors.IsolationError(f"module '{module}' has no function '{qualname}'") from error
    return found


def _types(function: Callable[..., Any], count: int) -> list[Any]:
    """The type of each of ``count`` positional arguments, by the function's annotations."""
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


def _describe(error: Exception) -> wire.Raised:
    # MismatchError carries a verdict that does not travel: the parent gets its base class.
    kinds = [
        kind.__name__
        for kind in type(error).__mro__
        if kind.__module__ == errors.__name__ and kind is not errors.MismatchError
    ]
    hint = getattr(error, "hint", None) if kinds else None
    name, text = type(error).__qualname__, str(error)
    return wire.Raised(
        kind=kinds[0] if kinds else None,
        message=_sendable(text),
        summary=_sendable(f"{name}: {text}" if text else name),
        traceback=_sendable("".join(traceback.format_exception(error))),
        hint=hint and _sendable(str(hint)),
    )


def _sendable(text: str) -> str:
    """The text without lone surrogates, which the name of a file can bring into a message."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
