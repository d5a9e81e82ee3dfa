"""Conversion of metric states to plain data, for workers and checkpoint files."""

from __future__ import annotations

import msgspec
import numpy as np

from enginebay.authors.arrays import PackedArray, is_torch, to_numpy


def pack_state(value: object) -> object:
    """Convert a metric's state to values that MessagePack can encode.

    Args:
        value: Numbers, strings, arrays, tensors, and lists and dicts of these; the keys of dicts
            are integers and strings.

    Raises:
        TypeError: The state contains an object of another type.
    """
    # Not pickle: loading a checkpoint or a worker's reply must never run code.
    if isinstance(value, dict):
        return {_check_key(name): pack_state(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [pack_state(entry) for entry in value]
    # First, since NumPy's float64 is a float too, and MessagePack encodes no subclass.
    if is_torch(value) or isinstance(value, np.ndarray | np.generic):
        array = to_numpy(value) if is_torch(value) else np.asarray(value)
        if array.dtype.kind not in "OUS":  # Python objects and strings
            # A dict with the only key "" stands for an array.
            return {"": PackedArray.of(array)}
    if value is None or type(value) in (bool, float, str):
        return value
    if type(value) is int and -(1 << 63) <= value < 1 << 64:  # MessagePack's range
        return value
    name = value if type(value) is int else f"a {type(value).__name__}"
    raise TypeError(f"{name} cannot be encoded as MessagePack")


def _check_key(name: object) -> object:
    if type(name) in (int, str) and name != "":
        return pack_state(name)
    raise TypeError(f"the key {name!r} cannot be encoded as MessagePack")


def unpack_state(value: object) -> object:
    """Return the state that :func:`pack_state` converted; its tensors become arrays."""
    if isinstance(value, dict):
        if set(value) == {""}:
            return msgspec.convert(value[""], PackedArray).array()
        return {name: unpack_state(entry) for name, entry in value.items()}
    return [unpack_state(entry) for entry in value] if isinstance(value, list) else value
