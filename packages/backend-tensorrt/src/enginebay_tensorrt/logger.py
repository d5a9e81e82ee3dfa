"""TensorRT's messages: into Python's logging, and into the errors that users see."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

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


class Messages:
    """Logs messages and collects errors; called from several threads at once."""

    interface = "ILogger"

    def __init__(self) -> None:
        super().__init__()
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


def reason(errors: list[str]) -> str:
    r"""Join logged errors to one line.

    Example:
        >>> reason(["a\nb", "c"])
        'a; b; c'
        >>> reason([])
        'no reason was given'
    """
    lines = (line.strip() for error in errors for line in error.splitlines())
    text = "; ".join(dict.fromkeys(filter(None, lines))) or "no reason was given"
    return text if len(text) <= _LIMIT else f"{text[: _LIMIT - 1]}…"
