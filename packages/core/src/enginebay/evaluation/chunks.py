"""The items of a data set in chunks: many small ones, or one that is large."""

from __future__ import annotations

from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from enginebay.tensors import is_torch, to_numpy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from enginebay.data import DataSet, Item
    from enginebay.tensors import NumpyArray, TensorSpec

#: Items in the first chunk, and at most in a later one; the bytes that end a chunk earlier.
FIRST, MOST = 16, 1024
BYTES = 1 << 20
#: Seconds that a chunk should take: each one wakes every engine's process, which on a busy machine
#: takes 10 ms; and progress, checkpoints and time limits go by chunks.
SHORT, LONG = 0.1, 0.5


class Reader:
    """Reads a data set once, from some item on.

    Args:
        data: The data set.
        inputs: What the model takes.
        skip: As many items are read and not given: an earlier run has evaluated them.
        unused: Inputs that items may have besides, and that are left out.

    Attributes:
        count: How many items were read.
    """

    def __init__(
        self,
        data: DataSet,
        inputs: Sequence[TensorSpec],
        skip: int = 0,
        unused: Collection[str] = (),
    ) -> None:
        self._items = data.items(inputs, unused)
        self._data = data
        self._skip = skip
        self._targets = blake2b(digest_size=16)
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

    @property
    def digest(self) -> str:
        """A digest of the inputs and the targets that were read."""
        return f"{self._data.record(self.count).digest}-{self._targets.hexdigest()}"

    def chunks(self) -> Iterator[list[Item]]:
        """The items, some at a time, whose inputs have the same shapes."""
        chunk: list[Item] = []
        shape: Any = None
        size = 0
        for item in self._read():
            found = [(array.dtype, array.shape) for array in item.inputs.values()]
            if chunk and (found != shape or len(chunk) >= self._size or size >= BYTES):
                yield chunk
                chunk, size = [], 0
            chunk.append(item)
            self._take(item)
            shape = found
            size += sum(array.nbytes for array in item.inputs.values())
        if chunk:
            yield chunk

    def read(self, count: int | None) -> None:
        """Read so many items, or all, for their digest."""
        for item in islice(self._items, count):
            self._take(item)

    def _read(self) -> Iterator[Item]:
        for item in self._items:
            if self.count >= self._skip:
                yield item
            else:
                self._take(item)

    def _take(self, item: Item) -> None:
        self.count += 1
        _add(self._targets, item.target)


def _add(digest: blake2b, value: Any) -> None:
    """Add a target, of whatever kind, to a digest."""
    if is_torch(value):
        value = to_numpy(value)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind != "O":
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(value.tobytes())
    elif isinstance(value, dict | list | tuple):
        digest.update(f"{type(value).__name__}{len(value)}".encode())
        for each in value.items() if isinstance(value, dict) else value:
            _add(digest, each)
    else:
        digest.update(repr(value).encode())


def fingerprint(data: DataSet, inputs: Sequence[TensorSpec], count: int | None = None) -> str:
    """Read some items, or all, and return their digest."""
    reader = Reader(data, inputs)
    reader.read(count)
    return reader.digest


def stacked(chunk: Sequence[Mapping[str, NumpyArray]]) -> dict[str, NumpyArray]:
    """The arrays of each name, one upon the other."""
    if len(chunk) == 1:
        return {name: array[None] for name, array in chunk[0].items()}
    return {name: np.stack([each[name] for each in chunk]) for name in chunk[0]}
