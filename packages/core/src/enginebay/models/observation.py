"""Observation of a forward: which values of its inputs Python gets to see, and where.

A value that Python has seen can decide a branch or end up as a constant, and then an exported graph
holds for that value only. Imports torch at its top, since a class cannot wait for its base.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from enginebay.ir import model_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from torch import Tensor

#: Operators whose results depend on their argument's shape alone.
_SHAPE_ONLY = frozenset(
    (
        *("zeros_like", "ones_like", "empty_like", "full_like"),
        *("new_zeros", "new_ones", "new_empty", "new_full", "new_empty_strided"),
    )
)

#: Operators that return places of values: of equal values, any may be the one.
_ORDERING = frozenset(
    ("topk", "sort", "argsort", "argmax", "argmin", "kthvalue", "median", "mode", "max", "min")
)

#: Tensor methods that give Python the values without an operator.
_METHODS = ("tolist", "numpy")


@dataclass(frozen=True)
class Reading:
    """A value that Python read from a tensor which depends on the inputs.

    Attributes:
        place: File and line of the model: ``folder/net.py:12``.
        value: The value, as text.
    """

    place: str
    value: str


@dataclass
class Observation:
    """What was seen in one forward.

    Attributes:
        readings: The values that Python read, in order.
        table_rows: For inputs that are looked up in embeddings, the rows of the smallest.
        classes: For inputs that index, gather or one-hot something else, its smallest size.
        orders: True if it computes places of values, which equal values leave open.
        random: True if it draws numbers at random.
        largest: The bytes of the largest tensor that depends on the inputs.
    """

    readings: list[Reading] = field(default_factory=list)
    table_rows: dict[str, int] = field(default_factory=dict)
    classes: dict[str, int] = field(default_factory=dict)
    orders: bool = False
    random: bool = False
    largest: int = 0

    @property
    def below(self) -> dict[str, int]:
        """What the integers of an input are less than, where the model shows it."""
        return {**self.classes, **self.table_rows}


class Observer(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """Watches the operators of a forward, and follows what depends on its inputs.

    A dispatch mode and no function mode: modules of torch choose other code under the latter. A
    higher-order operator such as ``torch.cond`` is one operator: what runs in it is not watched.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's is untyped
        self.observation = Observation()
        # A weak reference keeps the address of a freed storage from being used again.
        self._sources: dict[int, tuple[StorageWeakRef, frozenset[str]]] = {}

    @contextmanager
    def watch(self, inputs: Mapping[str, Tensor]) -> Iterator[None]:
        """Follow what depends on these tensors in a forward."""
        for name, tensor in inputs.items():
            self._mark([tensor], frozenset((name,)))
        with _reporting_methods(self), self:
            yield

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run one operator, and note what its result depends on."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        tags = getattr(func, "tags", ())  # a higher-order operator has none
        self.observation.random |= torch.Tag.nondeterministic_seeded in tags
        sources = self._sources_of(_flat((*args, *kwargs.values())))
        if not sources:
            return result
        name, written = _schema(func)
        if name in _SHAPE_ONLY:
            return result
        leaves = list(_flat((result,)))
        for leaf in leaves:
            if isinstance(leaf, bool | int | float | complex):
                self.read(leaf)
        changed = [args[place] for place in written if place < len(args)]
        self._mark((*leaves, *_flat(changed)), sources)
        if name in _ORDERING and any(
            getattr(leaf, "dtype", None) == torch.int64 for leaf in leaves
        ):
            self.observation.orders = True
        limits = self.observation.table_rows if name == "embedding" else self.observation.classes
        for indices, size in _look_ups(name, args):
            for source in self._sources_of([indices]):
                limits[source] = min(limits.get(source, size), size)
        return result

    def depends(self, tensor: Tensor) -> bool:
        """True if a tensor depends on the inputs."""
        return bool(self._sources_of([tensor]))

    def read(self, value: object) -> None:
        """Note a value that Python gets, and the line of the model that reads it."""
        place = model_line(sys._getframe(1))
        if place:
            self.observation.readings.append(Reading(place, _text(value)))

    def _mark(self, values: Iterable[Any], sources: frozenset[str]) -> None:
        for value in values:
            if (reference := _storage(value)) is not None:
                size = value.untyped_storage().nbytes()
                self.observation.largest = max(self.observation.largest, size)
                _, known = self._sources.get(reference.cdata, (None, frozenset()))
                self._sources[reference.cdata] = (reference, known | sources)

    def _sources_of(self, values: Iterable[Any]) -> frozenset[str]:
        found: frozenset[str] = frozenset()
        for value in values:
            if (reference := _storage(value)) is not None and reference.cdata in self._sources:
                found |= self._sources[reference.cdata][1]
        return found


_CURRENT: ContextVar[Observer | None] = ContextVar("_CURRENT", default=None)

#: The observers of all threads, since torch's class is one for all of them.
_active: list[Observer] = []
_LOCK = threading.Lock()


@contextmanager
def _reporting_methods(observer: Observer) -> Iterator[None]:
    """Let the methods that give values without an operator report to this thread's observer."""
    token = _CURRENT.set(observer)
    with _LOCK:
        if not _active:
            for name in _METHODS:
                setattr(torch.Tensor, name, _reporting(getattr(torch.Tensor, name)))
        _active.append(observer)
    try:
        yield
    finally:
        _CURRENT.reset(token)
        with _LOCK:
            _active.remove(observer)
            if not _active:
                for name in _METHODS:
                    delattr(torch.Tensor, name)  # torch's base class has the original


def _reporting(method: Any) -> Any:
    def reporting(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        value = method(self, *args, **kwargs)
        observer = _CURRENT.get()
        if observer is not None and observer.depends(self):
            observer.read(value)
        return value

    return reporting


def _look_ups(name: str, args: Sequence[Any]) -> Iterator[tuple[Tensor, int]]:
    """The indices that an operator takes, and the size of what they index."""
    match name:
        case "embedding":
            yield args[1], args[0].shape[0]
        case "gather" | "index_select" | "scatter":  # torch's one-hot scatters
            yield args[2], args[0].shape[args[1]] if args[0].dim() else 1
        case "index":
            for indices, size in zip(args[1], args[0].shape, strict=False):
                if indices is not None and indices.dtype != torch.bool:
                    yield indices, size


@cache
def _schema(func: Any) -> tuple[str, tuple[int, ...]]:
    """An operator's name, and the places of the arguments that it writes to."""
    schema = getattr(func, "_schema", None)
    if schema is None:  # a higher-order operator
        return func.name(), ()
    written = (place for place, argument in enumerate(schema.arguments) if argument.is_write)
    return schema.name.removeprefix("aten::").rstrip("_"), tuple(written)


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    """An operator's arguments or results, lists opened: a tenth of the time of torch's own."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from _flat(value)
        else:
            yield value


def _storage(value: Any) -> StorageWeakRef | None:
    if not isinstance(value, torch.Tensor):
        return None
    try:
        return StorageWeakRef(value.untyped_storage())  # type: ignore[no-untyped-call]  # torch's is untyped
    except (NotImplementedError, RuntimeError):  # sparse tensors have none
        return None


def _text(value: object) -> str:
    text = repr(value.tobytes() if isinstance(value, np.ndarray) else value)
    return text if len(text) <= 40 else f"{text[:30]}… (crc32 {crc32(text.encode()):08x})"
