"""TensorRT's messages: into Python's logging, and into the errors that users see."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from enginebay_tensorrt.installation import trt

if TYPE_CHECKING:
    from collections.abc import Iterator

_log = logging.getLogger(__name__)
_LEVELS = {
    "INTERNAL_ERROR": logging.ERROR,
    "ERROR": logging.ERROR,
    "WARNING": logging.WARNING,
    "INFO": logging.DEBUG,  # hundreds of lines a build
    "VERBOSE": logging.DEBUG,
}
_LIMIT = 500


class Logger(trt.ILogger):  # type: ignore[misc]  # tensorrt has no types
    """Logs messages and collects errors; called from several threads at once."""

    def __init__(self) -> None:
        trt.ILogger.__init__(self)
        self._lock = threading.Lock()
        self._listeners: list[list[str]] = []

    def log(self, severity: Any, msg: str) -> None:
        """Log one message of TensorRT's."""
        level = _LEVELS[severity.name]
        _log.log(level, "%s", msg)
        if level >= logging.ERROR:
            with self._lock:
                for errors in self._listeners:
                    errors.append(msg)

    @contextmanager
    def collecting(self) -> Iterator[list[str]]:
        """Yield a list that errors are added to inside the ``with`` block."""
        errors: list[str] = []
        with self._lock:
            self._listeners.append(errors)
        try:
            yield errors
        finally:
            with self._lock:
                self._listeners = [each for each in self._listeners if each is not errors]


#: One for the process: TensorRT keeps the first that it gets, and ignores later ones.
LOGGER = Logger()


def reason(errors: list[str]) -> str:
    r"""Join logged errors to one line.

    Example:
        >>> reason(["a\nb", "c"])
        'a; b; c'
        >>> reason([])
        'TensorRT gave no reason'
    """
    lines = (line.strip() for error in errors for line in error.splitlines())
    text = "; ".join(dict.fromkeys(filter(None, lines))) or "TensorRT gave no reason"
    return text if len(text) <= _LIMIT else f"{text[: _LIMIT - 1]}…"
