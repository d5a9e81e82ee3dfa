"""The items of a data set in chunks: many small ones, or one that is large."""

from __future__ import annotations

from copy import deepcopy
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.authors import is_torch
from enginebay_lab.evaluation.digests import SIZE, ItemDigests, TotalDigest, target_digest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from enginebay import DataSet, TensorSpec
    from enginebay.authors import Item, NumpyArray

#: Items in the first chunk, and at most in a later one; the bytes that end a chunk earlier.
FIRST, MOST = 16, 1024
BYTES = 1 << 20
#: Seconds that a chunk should take: each one wakes every engine's process, which on a busy machine
#: takes 10 ms; and progress, checkpoints and time limits go by chunks.
SHORT, LONG = 0.1, 0.5


class Reader:
    """Reads a data set once.

    Args:
        data: The data set.
        inputs: What the model takes.
        unused: Inputs that items may have besides, and that are left out.

    Attributes:
        count: How many items were read.
    """

    def __init__(
        self, data: DataSet, inputs: Sequence[TensorSpec], unused: Collection[str] = ()
    ) -> None:
        self._items = data.items(inputs, unused)
        self._data = data
        self._targets = bytearray()
        self._size = FIRST
        self.count = 0

    def adapt(self, seconds: float) -> None:
        """Make the next chunks longer or shorter.

        Args:
            seconds: How long the last one took.
        """
        if seconds < SHORT:
            self._size = min(MOST, 2 * self._size)
        elif seconds > LONG:
            self._size = max(1, self._size // 2)

    def digests(self, start: int, stop: int) -> ItemDigests:
        """Digests of items that were read: from one place to the one before another."""
        return ItemDigests(
            self._data.digests(start, stop), bytes(self._targets[SIZE * start : SIZE * stop])
        )

    def chunks(self) -> Iterator[list[Item]]:
        """The items, some at a time, whose inputs have the same shapes."""
        chunk: list[Item] = []
        shape: Any = None
        size = 0
        for item in self._items:
            found = [(array.dtype, array.shape) for array in item.inputs.values()]
            if chunk and (found != shape or len(chunk) >= self._size or size >= BYTES):
                yield chunk
                chunk, size = [], 0
            self._note(item)
            chunk.append(_kept(item))
            shape = found
            size += sum(array.nbytes for array in item.inputs.values())
        if chunk:
            yield chunk

    def read(self, count: int | None) -> None:
        """Read so many items, or all, for their digests."""
        for item in islice(self._items, count):
            self._note(item)

    def _note(self, item: Item) -> None:
        self.count += 1
        self._targets += target_digest(item.target)


def _kept(item: Item) -> Item:
    """The item with arrays of its own: a data set may fill the same ones with the next item."""
    inputs = {name: array.copy() for name, array in item.inputs.items()}
    return item._replace(inputs=inputs, target=copied(item.target))


def copied(value: Any) -> Any:
    """A target or outputs, which whoever gets them may write into."""
    return value.detach().clone() if is_torch(value) else deepcopy(value)


def fingerprint(data: DataSet, inputs: Sequence[TensorSpec]) -> str:
    """Read all items, and return their digest."""
    reader = Reader(data, inputs)
    reader.read(None)
    total = TotalDigest()
    total.add(reader.digests(0, reader.count))
    return total.text


def stacked(chunk: Sequence[Mapping[str, NumpyArray]]) -> dict[str, NumpyArray]:
    """The arrays of each name, one upon the other."""
    if len(chunk) == 1:
        return {name: array[None] for name, array in chunk[0].items()}
    return {name: np.stack([each[name] for each in chunk]) for name in chunk[0]}
