"""Keeps the exporters' chatter away from users, and keeps what they need to know."""

from __future__ import annotations

import logging
import sys
import warnings
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

#: They log tracebacks and which optional packages are missing.
_LOGGERS = ("torch", "onnxscript", "onnx_ir")


@contextmanager
def quiet() -> Iterator[list[str]]:
    """Run an exporter without its warnings, logs and prints.

    The exporters print graphs when they fail; the exception says enough. Other threads go on
    printing (a progress bar, say); warnings are process-wide in Python, and so is this for them.

    Yields:
        A list that holds, once the block is left, one line for each distinct ``TracerWarning``:
        the places where tracing turned something that depends on the input into a constant.
    """
    notes: list[str] = []
    with (
        warnings.catch_warnings(record=True) as caught,
        redirect_stdout(cast("TextIO", _Hushed(sys.stdout))),
        redirect_stderr(cast("TextIO", _Hushed(sys.stderr))),
        _muted(),
    ):
        warnings.simplefilter("always")
        try:
            yield notes
        finally:
            notes.extend(dict.fromkeys(_line(warning) for warning in caught if _is_tracer(warning)))


class _Hushed:
    """A stream that drops what the current thread writes, and passes on what others do."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._thread = get_ident()

    def write(self, text: str) -> int:
        return len(text) if get_ident() == self._thread else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def no_graph_dump() -> Iterator[None]:
    """Keep the TorchScript exporter from printing the whole graph when it fails.

    It means to do that only if verbose, but looks at a function instead of calling it, and writes
    to the process's standard output past Python.
    """
    import torch

    log = torch._C._jit_onnx_log
    torch._C._jit_onnx_log = lambda *_: None
    try:
        yield
    finally:
        torch._C._jit_onnx_log = log


@contextmanager
def _muted() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _is_tracer(warning: warnings.WarningMessage) -> bool:
    return warning.category.__name__ == "TracerWarning"


def _line(warning: warnings.WarningMessage) -> str:
    text = str(warning.message).partition(". ")[0]
    return f"tracing: {text} ({Path(warning.filename).name}:{warning.lineno})"
