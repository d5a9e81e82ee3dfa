"""Values that Python reads from tensors without an operator, such as by ``tolist``."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar
from zlib import crc32

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

_T = TypeVar("_T")

#: Tensor methods that return the values to Python without an operator: torch's own, None if its
#: base class has them.
_METHODS = {name: vars(torch.Tensor).get(name) for name in ("tolist", "numpy", "__dlpack__")}


@dataclass(frozen=True)
class Reading:
    """What Python read from a tensor which depends on the inputs.

    Attributes:
        place: File and line of the model: ``folder/net.py:12``.
        kind: ``truth``, ``number`` (or several), ``size`` (one that follows from values), or
            ``memory`` (by DLPack, whose values a tracer does not see being read).
        value: The value as text: ``True``, ``size [3]``; for ``memory``, how it is read.
    """

    place: str
    kind: Literal["truth", "number", "size", "memory"]
    value: str


class Reader(Protocol):
    """What is told of the values that Python reads."""

    def depends(self, tensor: Tensor, /) -> bool:
        """Return True if a tensor depends on the inputs."""

    def read(self, value: object, /) -> None:
        """Take a value that Python reads; the tensor itself, if its values are not known."""


def read_at(place: str, value: object) -> Reading:
    """Describe a value that Python reads; a tensor stands for its memory."""
    if isinstance(value, torch.Tensor):
        return Reading(place, "memory", "by DLPack")
    if isinstance(value, torch.Size):
        return Reading(place, "size", f"size {[*value]}")
    return Reading(place, "truth" if isinstance(value, bool) else "number", _abbreviate(value))


#: The reader of the current thread.
_CURRENT: ContextVar[Reader | None] = ContextVar("_CURRENT", default=None)

#: The active readers of all threads, since the methods are replaced for all of them at once.
_active: list[Reader] = []
_LOCK = threading.Lock()


@contextmanager
def reporting_methods(reader: Reader) -> Iterator[None]:
    """Inside the block, report calls of ``tolist``, ``numpy`` and DLPack, which run no operator."""
    token = _CURRENT.set(reader)
    with _LOCK:
        if not _active:
            for name in _METHODS:
                setattr(torch.Tensor, name, _reporting(getattr(torch.Tensor, name)))
        _active.append(reader)
    try:
        yield
    finally:
        _CURRENT.reset(token)
        with _LOCK:
            _active.remove(reader)
            if not _active:
                for name, original in _METHODS.items():
                    delattr(torch.Tensor, name)
                    if original is not None:
                        setattr(torch.Tensor, name, original)


def _reporting(method: Callable[..., _T]) -> Callable[..., _T]:
    def reporting(self: Tensor, *args: object, **kwargs: object) -> _T:
        value = method(self, *args, **kwargs)
        reader = _CURRENT.get()
        # What the observer itself reads is no reading of the model.
        is_own = sys._getframe(1).f_globals.get("__name__", "").startswith("enginebay.state.")
        if reader is not None and not is_own and reader.depends(self):
            reader.read(self if method.__name__ == "__dlpack__" else value)
        return value

    return reporting


def _abbreviate(value: object) -> str:
    text = repr(value.tobytes() if isinstance(value, np.ndarray) else value)
    # The checksum distinguishes long values that begin alike.
    return text if len(text) <= 40 else f"{text[:30]}… (crc32 {crc32(text.encode()):08x})"
