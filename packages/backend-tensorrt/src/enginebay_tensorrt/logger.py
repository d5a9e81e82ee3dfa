"""Forward TensorRT's messages to Python's logging, and collect the errors for exceptions."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import tensorrt as trt

_log = logging.getLogger("enginebay.tensorrt")
# Without a handler Python prints errors, which are in the exceptions already.
_log.addHandler(logging.NullHandler())
#: Python's levels, indexed by the value of TensorRT's severity. A value and not a name, because the
#: bindings need 6 µs for the name of a member, and a build of BERT logs 11,000 messages.
_LEVELS = (
    logging.ERROR,
    logging.ERROR,
    logging.WARNING,
    logging.DEBUG,  # INFO: hundreds of lines a build
    logging.DEBUG,
)
#: The maximum length of the errors in an exception's message.
_MAX_CHARACTERS = 500
#: Without a driver, TensorRT logs this error after each other error.
_NO_DRIVER = "cudaError 35: CUDA driver version is insufficient"


class Messages:
    """Receives TensorRT's log messages, possibly from several threads at once."""

    interface = "ILogger"

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._listeners: list[list[str]] = []

    def log(self, severity: trt.ILogger.Severity, msg: str) -> None:
        """Log a message; an error that is collected for an exception is logged as DEBUG."""
        level = _LEVELS[int(severity)]
        with self._lock:
            collecting = self._listeners if level >= logging.ERROR else []
            for errors in collecting:
                errors.append(msg)
        _log.log(logging.DEBUG if collecting else level, "%s", msg)

    @contextmanager
    def collecting(self) -> Iterator[list[str]]:
        """Yield a list to which each error that TensorRT logs in the ``with`` block is added."""
        errors: list[str] = []
        with self._lock:
            self._listeners.append(errors)
        try:
            yield errors
        finally:
            with self._lock:
                # By identity: two lists with the same errors are equal.
                self._listeners = [
                    listener for listener in self._listeners if listener is not errors
                ]


def join_errors(errors: list[str]) -> str:
    r"""Join logged errors into one line.

    Example:
        >>> join_errors(["a\nb", "c"])
        'a; b; c'
        >>> join_errors([])
        'no reason was given'
    """
    lines = [line.strip() for error in errors for line in error.splitlines() if line.strip()]
    causes = [line for line in lines if _NO_DRIVER not in line] or lines
    text = "; ".join(dict.fromkeys(causes)) or "no reason was given"
    return text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 1]}…"
