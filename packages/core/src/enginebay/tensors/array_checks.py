"""Checks of arrays: floats, equal values, values that are all NaN or infinite."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.tensors.arrays import NumpyArray


def is_float(array: NumpyArray) -> bool:
    """Return True for an array of floats or complex numbers."""
    return array.dtype.kind in "fcV"  # V is the kind of the dtypes of ml_dtypes


def is_all_non_finite(array: NumpyArray) -> bool:
    """Return True if an array is not empty and all its elements are NaN or infinite."""
    import numpy as np

    return array.size > 0 and is_float(array) and not np.isfinite(array).any()


def equal_arrays(left: Mapping[str, NumpyArray], right: Mapping[str, NumpyArray]) -> bool:
    """Return True if ``right`` has an equal array for each name in ``left``; NaN equals NaN."""
    import numpy as np

    return all(
        np.array_equal(array, right[name], equal_nan=array.dtype.kind in "fc")
        for name, array in left.items()
    )
