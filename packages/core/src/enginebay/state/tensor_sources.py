"""Tracking of the tensors of a forward pass that depend on its inputs.

This file imports torch at its top, since tensors are tracked in each operator of a forward.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Sources(NamedTuple):
    """The names of the inputs on which a tensor depends, and on which without a reduction.

    Attributes:
        all: The names of all inputs.
        elementwise: The names of the inputs without a reduction in between.
        chosen: For discrete values that were computed from floats: the keys of their decisions, and
            an empty key if they were computed without one, as by rounding.
    """

    all: frozenset[str] = frozenset()
    elementwise: frozenset[str] = frozenset()
    chosen: frozenset[str] = frozenset()

    def join(self, other: Sources) -> Sources:
        """Return the sources of a value that depends on two others."""
        if other is self or other is NO_SOURCES:
            return self
        if self is NO_SOURCES:
            return other
        return Sources(*map(operator.or_, self, other))


NO_SOURCES = Sources()


class TensorSources:
    """The tensors of a forward that depend on its inputs, by the memory that they share.

    Attributes:
        largest: Size in bytes of the largest of them.
    """

    def __init__(self) -> None:
        self.largest = 0
        # While a weak reference exists, the address of a freed storage is not reused.
        self._known: dict[int, tuple[StorageWeakRef, Sources]] = {}

    def mark(self, values: Iterable[Any], sources: Sources) -> None:
        """Note that the tensors among ``values`` depend on ``sources``, beside what is known."""
        for value in values:
            if (reference := _storage(value)) is not None:
                self.largest = max(self.largest, value.untyped_storage().nbytes())
                _, known = self._known.get(reference.cdata, (None, sources))
                self._known[reference.cdata] = (reference, known.join(sources))

    def note_made(self, values: Iterable[Any]) -> None:
        """Note tensors that the forward makes, which are no tables of the model."""
        for value in values:
            if (reference := _storage(value)) is not None:
                self._known.setdefault(reference.cdata, (reference, NO_SOURCES))

    def find(self, values: Iterable[object]) -> Sources:
        """Return the sources of all tensors among ``values``."""
        sources = NO_SOURCES
        for value in values:
            if (reference := _storage(value)) is not None and reference.cdata in self._known:
                sources = sources.join(self._known[reference.cdata][1])
        return sources

    def is_stored(self, value: object) -> bool:
        """Return True for a tensor of the model itself: no run has made it, and no input is it."""
        reference = _storage(value)
        return reference is not None and reference.cdata not in self._known


def flatten(values: Iterable[object]) -> Iterator[object]:
    """Yield the entries of nested lists and tuples."""
    # Not torch's pytree, which takes ten times as long.
    for value in values:
        if isinstance(value, list | tuple):
            yield from flatten(value)
        else:
            yield value


def _storage(value: object) -> StorageWeakRef | None:
    if not isinstance(value, torch.Tensor):
        return None
    try:
        return StorageWeakRef(value.untyped_storage())  # type: ignore[no-untyped-call]  # torch's is untyped
    except (NotImplementedError, RuntimeError):  # sparse tensors have none
        return None
