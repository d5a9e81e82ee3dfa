"""The smallest and the largest values of arrays and tensors."""

from __future__ import annotations

import math
from typing import Any

from enginebay.tensors.array_checks import is_float
from enginebay.tensors.arrays import is_torch, to_numpy


def find_extremes(array: Any) -> tuple[float | None, float | None, bool]:
    """Return the smallest and the largest finite value, and whether all values are finite.

    The values are None if no value is finite, or if the values have no order.
    """
    if is_torch(array):
        try:
            low, high = (value.item() for value in array.aminmax())
        except RuntimeError:  # a dtype without this operator on its device
            return find_extremes(to_numpy(array))
    elif array.dtype.kind in "biuf":
        low, high = array.min().item(), array.max().item()
    elif is_float(array) and array.dtype.kind != "c":  # of ml_dtypes, such as bfloat16
        return find_extremes(array.astype("float32"))
    else:
        return None, None, True
    if not isinstance(low, float):
        return int(low), int(high), True  # bool is not a number in JSON
    if math.isfinite(low) and math.isfinite(high):
        return low, high, True
    values = to_numpy(array)
    values = values[abs(values) < math.inf]  # False for NaN
    return (values.min().item(), values.max().item(), False) if values.size else (None, None, False)


def measure_shares(array: Any) -> tuple[float, float]:
    """Return the smallest and the largest share of elements other than 0 in a row."""
    mask = array != 0
    rows = mask.reshape(-1, mask.shape[-1] if mask.ndim else 1)
    shares = (rows.double() if is_torch(rows) else rows).mean(-1)
    return shares.min().item(), shares.max().item()
