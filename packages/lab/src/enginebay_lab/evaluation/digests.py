"""What identifies the items of an evaluation: a digest of each, whoever reads them."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np

from enginebay.authors import is_torch, to_numpy

#: Bytes of one item's digest.
SIZE = 8


class ItemDigests(msgspec.Struct, frozen=True, array_like=True):
    """Digests of items that follow one another, :data:`SIZE` bytes each.

    Attributes:
        inputs: Of their inputs.
        targets: Of their targets.
    """

    inputs: bytes
    targets: bytes


class TotalDigest:
    """A digest of all items from the first on, whoever read them."""

    def __init__(self) -> None:
        self._inputs, self._targets = blake2b(digest_size=16), blake2b(digest_size=16)

    def add(self, items: ItemDigests) -> None:
        """Add the items that come next."""
        self._inputs.update(items.inputs)
        self._targets.update(items.targets)

    @property
    def inputs(self) -> str:
        """Of the inputs, as in a :class:`~enginebay.DataRecord`."""
        return self._inputs.hexdigest()

    @property
    def text(self) -> str:
        """Of the inputs and the targets."""
        return f"{self.inputs}-{self._targets.hexdigest()}"


def target_digest(target: Any) -> bytes:
    """A digest of a target, of whatever kind."""
    digest = blake2b(digest_size=SIZE)
    _add(digest, target)
    return digest.digest()


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
