"""Suppression of the warnings, logs and prints of exporters; tracer warnings become notes."""

from __future__ import annotations

import logging
import sys
import warnings
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from threading import enumerate as enumerate_threads, get_ident
from typing import TYPE_CHECKING, TextIO, cast

from enginebay.ir.model_lines import model_line

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The loggers of exporters, which log tracebacks and missing optional packages.
_LOGGERS = ("torch", "onnxscript", "onnx_ir")


@contextmanager
def quiet() -> Iterator[list[str]]:
    """Suppress the warnings, logs and prints of an exporter inside the ``with`` statement.

    Other threads, such as that of a progress bar, can still print. But their warnings are
    suppressed too, since Python's warning filters apply to the whole process.

    Yields:
        A list of notes, one for each distinct ``TracerWarning``. A note names a line of the
        model whose result depends on the inputs, but became a constant in the trace.
    """
    notes: list[str] = []

    def record_tracer_warning(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,  # noqa: ARG001  # Python's own signature
        line: str | None = None,  # noqa: ARG001
    ) -> None:
        if category.__name__ == "TracerWarning":
            note = _format_tracer_note(message, filename, lineno)
            if note not in notes:
                notes.append(note)

    with (
        warnings.catch_warnings(),
        redirect_stdout(cast("TextIO", _ThreadMutedStream(sys.stdout))),
        redirect_stderr(cast("TextIO", _ThreadMutedStream(sys.stderr))),
        _muted_loggers(),
    ):
        warnings.simplefilter("always")
        warnings.showwarning = record_tracer_warning  # catch_warnings() restores it
        yield notes


class _ThreadMutedStream:
    """A stream that drops the output of its creator's thread, and forwards all other output."""

    def __init__(self, stream: TextIO) -> None:
        # Not the proxy of a rich display that is already shown: this proxy and the proxy of NNCF's
        # progress bar would write to each other forever.
        self._stream: TextIO = getattr(stream, "rich_proxied_file", stream)
        self._thread = get_ident()
        self._earlier_threads = {thread.ident for thread in enumerate_threads()} - {self._thread}

    @property
    def rich_proxied_file(self) -> object:
        # A rich display in an earlier thread reads this attribute, and writes past this stream.
        return self._stream if get_ident() in self._earlier_threads else self

    def isatty(self) -> bool:
        return False  # so that rich, which NNCF uses, draws no progress bar

    def write(self, text: str) -> int:
        return len(text) if get_ident() == self._thread else self._stream.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


@contextmanager
def _muted_loggers() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        # One more, since a logger handles records of its own level.
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _format_tracer_note(message: Warning | str, filename: str, number: int) -> str:
    # The warning's own line may be in a mode of torch or of Enginebay, not in the model.
    line = model_line(sys._getframe(2)) or f"{Path(filename).name}:{number}"
    return f"tracing: {str(message).partition('. ')[0]} ({line})"
