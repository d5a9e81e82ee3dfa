"""An array in every layout that a caller may pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from enginebay.authors.arrays import NumpyArray


def _transposed(array: NumpyArray) -> NumpyArray:
    """Return the array with channels last in memory, as image libraries do."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)


def _reversed(array: NumpyArray) -> NumpyArray:
    return np.ascontiguousarray(array[::-1, ..., ::-1])[::-1, ..., ::-1]


def _strided(array: NumpyArray) -> NumpyArray:
    """Return a view of every other element; those between are NaN, which a wrong read shows."""
    wide = np.full((*array.shape[:-1], 2 * array.shape[-1]), np.nan, array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


def _read_only(array: NumpyArray) -> NumpyArray:
    array = array.copy()
    array.flags.writeable = False
    return array


def _unaligned(array: NumpyArray) -> NumpyArray:
    memory = np.frombuffer(b"\0" + array.tobytes(), np.uint8)
    return memory[1:].view(array.dtype).reshape(array.shape)


LAYOUTS: dict[str, Callable[[NumpyArray], Any]] = {
    "contiguous": np.copy,
    "Fortran order": np.asfortranarray,
    "transposed": _transposed,
    "reversed": _reversed,
    "strided": _strided,
    "read-only": _read_only,
    "not aligned": _unaligned,
    "tensor": lambda array: torch.from_numpy(_transposed(array)),
}
