"""Keeps the exporters' chatter away from users, and keeps what they need to know."""

from __future__ import annotations

import logging
import sys
import warnings
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from threading import enumerate as enumerate_threads, get_ident
from traceback import walk_stack, walk_tb
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType

#: They log tracebacks and which optional packages are missing.
_LOGGERS = ("torch", "onnxscript", "onnx_ir")


@contextmanager
def quiet() -> Iterator[list[str]]:
    """Run an exporter without its warnings, logs and prints.

    The exporters print graphs when they fail; the exception says enough. Other threads go on
    printing (a progress bar, say); warnings are process-wide in Python, and so is this for them.

    Yields:
        A list that gets one line for each distinct ``TracerWarning``: the places where tracing
        turned something that depends on the input into a constant.
    """
    notes: list[str] = []

    def keep(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,  # noqa: ARG001  # Python's own signature
        line: str | None = None,  # noqa: ARG001
    ) -> None:
        if category.__name__ == "TracerWarning":
            note = _note(message, filename, lineno)
            if note not in notes:
                notes.append(note)

    with (
        warnings.catch_warnings(),
        redirect_stdout(cast("TextIO", _Hushed(sys.stdout))),
        redirect_stderr(cast("TextIO", _Hushed(sys.stderr))),
        _muted(),
    ):
        warnings.simplefilter("always")
        warnings.showwarning = keep  # put back with the filters
        yield notes


class _Hushed:
    """A stream that drops what the current thread writes, and passes on what others do.

    For rich it is no terminal, so that NNCF draws no bar. A display that was there before goes on,
    past this stream: its proxy and NNCF's would write to each other forever.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream: TextIO = getattr(stream, "rich_proxied_file", stream)
        self._thread = get_ident()
        self._earlier = {thread.ident for thread in enumerate_threads()} - {self._thread}

    @property
    def rich_proxied_file(self) -> Any:
        return self._stream if get_ident() in self._earlier else self

    def isatty(self) -> bool:
        return False

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

    enable, was_enabled = torch._C._jit_set_onnx_log_enabled, torch._C._jit_is_onnx_log_enabled()
    enable(False)
    torch._C._jit_set_onnx_log_enabled = lambda *_: None
    try:
        yield
    finally:
        torch._C._jit_set_onnx_log_enabled = enable
        enable(was_enabled)


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


def _note(message: Warning | str, filename: str, number: int) -> str:
    """The note of one warning, with the model's line and not that of a mode of torch or ours."""
    place = model_line(sys._getframe(2)) or f"{Path(filename).name}:{number}"
    return f"tracing: {str(message).partition('. ')[0]} ({place})"


def model_line(frame: FrameType) -> str:
    """The innermost line that is neither torch's, NumPy's nor ours: ``folder/net.py:12``.

    Args:
        frame: Where to start.

    Returns:
        The line; an empty text where there is none.
    """
    return _place(walk_stack(frame))


def raised_at(err: BaseException) -> str:
    """The same of the lines that an exception came through, as ``" (folder/net.py:12)"``."""
    place = _place(reversed([*walk_tb(err.__traceback__)]))
    return f" ({place})" if place else ""


def is_model_file(file: str) -> bool:
    """Return True for a file that is neither torch's, NumPy's nor ours."""
    modules = (sys.modules.get(name) for name in ("torch", "numpy", "enginebay"))
    own = tuple(str(Path(str(module.__file__)).parent) for module in modules if module)
    return not file.startswith((*own, warnings.__file__, "<frozen"))


def _place(steps: Iterable[tuple[FrameType, int]]) -> str:
    for frame, line in steps:
        if is_model_file(file := frame.f_code.co_filename):
            return f"{'/'.join(Path(file).parts[-2:])}:{line}"
    return ""
