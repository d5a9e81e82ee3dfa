"""A reader of data sets in chunks; a chunk has many small items or one large item."""

from __future__ import annotations

from copy import deepcopy
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from enginebay.authors.arrays import is_torch
from enginebay_lab.evaluation.batches import read_items
from enginebay_lab.evaluation.digests import DIGEST_BYTES, ItemDigests, TotalDigest, digest_target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from enginebay import DataSet, TensorSpec
    from enginebay.authors.arrays import NumpyArray
    from enginebay.authors.sources import Item

#: The number of items in the first chunk, before the duration of a chunk is known.
FIRST_CHUNK_ITEMS = 16
#: The largest number of items in a chunk.
MAX_CHUNK_ITEMS = 1024
#: A chunk ends at this many bytes of inputs, even if it has fewer items than planned.
MAX_CHUNK_BYTES = 1 << 20
#: Target duration of a chunk. Each chunk wakes every engine's process, which takes 10 ms on a busy
#: machine; progress, checkpoints and time limits are per chunk.
MIN_CHUNK_SECONDS, MAX_CHUNK_SECONDS = 0.1, 0.5


class ItemReader:
    """Reads a data set once, in chunks, and records the digests of its items.

    Args:
        data: The data set.
        inputs: The model's inputs.

    Attributes:
        count: The number of items read so far.
    """

    def __init__(self, data: DataSet, inputs: Sequence[TensorSpec]) -> None:
        self._items = read_items(data, inputs)
        self._data = data
        self._targets = bytearray()
        self._chunk_items = FIRST_CHUNK_ITEMS
        self.count = 0

    def adapt_chunks(self, seconds: float) -> None:
        """Double the size of the next chunks after a fast chunk, and halve it after a slow chunk.

        Args:
            seconds: The duration of the last chunk.
        """
        if seconds < MIN_CHUNK_SECONDS:
            self._chunk_items = min(MAX_CHUNK_ITEMS, 2 * self._chunk_items)
        elif seconds > MAX_CHUNK_SECONDS:
            self._chunk_items = max(1, self._chunk_items // 2)

    def item_digests(self, start: int, stop: int) -> ItemDigests:
        """Return the digests of items ``start`` to ``stop - 1``, which must have been read."""
        targets = self._targets[DIGEST_BYTES * start : DIGEST_BYTES * stop]
        return ItemDigests(self._data.digests(start, stop), bytes(targets))

    def read_chunks(self) -> Iterator[list[Item]]:
        """Yield the items in chunks; all inputs of a chunk have equal shapes and dtypes."""
        chunk: list[Item] = []
        chunk_shape: object = None
        size = 0
        for item in self._items:
            shape = [(array.dtype, array.shape) for array in item.inputs.values()]
            is_full = len(chunk) >= self._chunk_items or size >= MAX_CHUNK_BYTES
            if chunk and (is_full or shape != chunk_shape):
                yield chunk
                chunk, size = [], 0
            self._record_item(item)
            chunk.append(_copy_item(item))
            chunk_shape = shape
            size += sum(array.nbytes for array in item.inputs.values())
        if chunk:
            yield chunk

    def skip_items(self, count: int | None) -> None:
        """Read the next ``count`` items, or all if None; record only their digests."""
        for item in islice(self._items, count):
            self._record_item(item)

    def _record_item(self, item: Item) -> None:
        self.count += 1
        self._targets += digest_target(item.target)


def _copy_item(item: Item) -> Item:
    # A data set may fill the same arrays with its next item.
    inputs = {name: array.copy() for name, array in item.inputs.items()}
    return item._replace(inputs=inputs, target=copy_value(item.target))


def copy_value(value: object) -> object:
    """Return a deep copy of a target or of outputs; a tensor loses its gradient history."""
    # deepcopy() refuses tensors with a gradient history.
    return value.detach().clone() if is_torch(value) else deepcopy(value)


def digest_data_set(data: DataSet, inputs: Sequence[TensorSpec]) -> str:
    """Read all items, and return a digest of their inputs and targets."""
    reader = ItemReader(data, inputs)
    reader.skip_items(None)
    total = TotalDigest()
    total.add(reader.item_digests(0, reader.count))
    return total.text


def stack_arrays(chunk: Sequence[Mapping[str, NumpyArray]]) -> dict[str, NumpyArray]:
    """Return an array for each name: the arrays of this name, stacked along a new first axis."""
    if len(chunk) == 1:
        return {name: array[None] for name, array in chunk[0].items()}
    return {name: np.stack([arrays[name] for arrays in chunk]) for name in chunk[0]}
