"""TensorRT's messages: into Python's logging, and into the errors that users see."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_log = logging.getLogger("enginebay.tensorrt")
# Without any handler Python prints errors, and they are in the exceptions already.
_log.addHandler(logging.NullHandler())
#: By the numbers of TensorRT's severities, INTERNAL_ERROR first. Its bindings look for a member's
#: name for 6 µs, and a build of BERT has 11,000 messages.
_LEVELS = (
    logging.ERROR,
    logging.ERROR,
    logging.WARNING,
    logging.DEBUG,  # INFO: hundreds of lines a build
    logging.DEBUG,
)
_LIMIT = 500
#: Where there is no driver, every error is followed by this one.
_NO_DRIVER = "cudaError 35: CUDA driver version is insufficient"


class Messages:
    """Logs messages and collects errors; called from several threads at once."""

    interface = "ILogger"

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._listeners: list[list[str]] = []

    def log(self, severity: Any, msg: str) -> None:
        """Log one message of TensorRT's; an error that is collected is raised, not shown."""
        level = _LEVELS[int(severity)]
        with self._lock:
            collecting = self._listeners if level >= logging.ERROR else []
            for errors in collecting:
                errors.append(msg)
        _log.log(logging.DEBUG if collecting else level, "%s", msg)

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
    lines = [line.strip() for error in errors for line in error.splitlines() if line.strip()]
    telling = [line for line in lines if _NO_DRIVER not in line] or lines
    text = "; ".join(dict.fromkeys(telling)) or "no reason was given"
    return text if len(text) <= _LIMIT else f"{text[: _LIMIT - 1]}…"
