"""The state of a metric as bytes, for a worker and for a file: MessagePack, never pickle."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from enginebay.authors import PackedArray, is_torch, to_numpy


def pack_state(value: Any) -> Any:
    """A metric's state as plain data: numbers, arrays, tensors, and lists and dicts of them.

    Raises:
        TypeError: It holds something else.
    """
    if isinstance(value, dict):
        return {str(name): pack_state(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [pack_state(each) for each in value]
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 64:  # as MessagePack has it
        return value
    if is_torch(value) or isinstance(value, np.ndarray | np.generic):
        array = to_numpy(value) if is_torch(value) else np.asarray(value)
        if array.dtype.kind not in "OUS":
            return {"": PackedArray.of(array)}
    what = value if isinstance(value, int) else f"a {type(value).__name__}"
    raise TypeError(f"{what} cannot be kept")


def unpack_state(value: Any) -> Any:
    """What :func:`pack_state` was given, with arrays for tensors."""
    if isinstance(value, dict):
        if set(value) == {""}:
            return msgspec.convert(value[""], PackedArray).array()
        return {name: unpack_state(each) for name, each in value.items()}
    return [unpack_state(each) for each in value] if isinstance(value, list) else value
