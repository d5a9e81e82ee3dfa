"""Arrays as bytes, for the pipe to an engine and for a file: MessagePack, never pickle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from enginebay.authors import is_torch, numpy_dtype, to_numpy

if TYPE_CHECKING:
    from enginebay.authors import NumpyArray


class Packed(msgspec.Struct, array_like=True):
    """An array.

    Attributes:
        dtype: Its name.
        shape: Its shape.
        data: Its bytes, in C order.
    """

    dtype: str
    shape: tuple[int, ...]
    data: bytearray

    def array(self) -> NumpyArray:
        """The array, which can be written to."""
        return np.frombuffer(self.data, numpy_dtype(self.dtype)).reshape(self.shape)


def packed(array: NumpyArray) -> Packed:
    """Pack an array of numbers."""
    return Packed(array.dtype.name, array.shape, bytearray(array.tobytes()))


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
            return {"": packed(array)}
    what = value if isinstance(value, int) else f"a {type(value).__name__}"
    raise TypeError(f"{what} cannot be kept")


def unpack_state(value: Any) -> Any:
    """What :func:`pack_state` was given, with arrays for tensors."""
    if isinstance(value, dict):
        if set(value) == {""}:
            return msgspec.convert(value[""], Packed).array()
        return {name: unpack_state(each) for name, each in value.items()}
    return [unpack_state(each) for each in value] if isinstance(value, list) else value
