"""Digests of items, with which a resumed evaluation checks that the data set is unchanged."""

from __future__ import annotations

from hashlib import blake2b

import msgspec
import numpy as np

from enginebay.authors.arrays import is_torch, to_numpy

#: The size of the digest of one item's inputs, and of its target.
DIGEST_BYTES = 8


class ItemDigests(msgspec.Struct, frozen=True, array_like=True):
    """The digests of consecutive items, :data:`DIGEST_BYTES` bytes each.

    Attributes:
        inputs: The concatenated digests of the items' inputs.
        targets: The concatenated digests of the items' targets.
    """

    inputs: bytes
    targets: bytes


class TotalDigest:
    """A running digest of the items of a data set."""

    def __init__(self) -> None:
        self._inputs, self._targets = blake2b(digest_size=16), blake2b(digest_size=16)

    def add(self, items: ItemDigests) -> None:
        """Add the digests of the next items."""
        self._inputs.update(items.inputs)
        self._targets.update(items.targets)

    @property
    def inputs(self) -> str:
        """The digest of the inputs in hexadecimal, as in ``DataRecord.digest``."""
        return self._inputs.hexdigest()

    @property
    def text(self) -> str:
        """The digests of the inputs and of the targets, joined by a hyphen."""
        return f"{self.inputs}-{self._targets.hexdigest()}"


def digest_target(target: object) -> bytes:
    """Return a digest of a target of any type."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    _add_value(digest, target)
    return digest.digest()


def _add_value(digest: blake2b, value: object) -> None:
    if is_torch(value):
        value = to_numpy(value)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind != "O":
        # The same bytes with another dtype or shape are another target.
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(value.tobytes())
    elif isinstance(value, dict | list | tuple):
        # The length tells [[1], 2] from [[1, 2]].
        digest.update(f"{type(value).__name__}{len(value)}".encode())
        for entry in value.items() if isinstance(value, dict) else value:
            _add_value(digest, entry)
    else:
        digest.update(repr(value).encode())
