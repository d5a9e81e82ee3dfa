"""Arrays as MessagePack values, which can be sent to another process without pickle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import msgspec

from enginebay.tensors.arrays import numpy_dtype

if TYPE_CHECKING:
    from enginebay.tensors.arrays import NumpyArray


# array_like: a message contains no field names, which each array would repeat.
class PackedArray(msgspec.Struct, array_like=True):
    """An array of numbers or texts in a form that msgspec can encode.

    Attributes:
        dtype: The name of the array's NumPy dtype.
        shape: The array's shape.
        data: The bytes of the elements, in C order.

    Example:
        >>> import numpy as np
        >>> PackedArray.of(np.arange(3)).array()
        array([0, 1, 2])
    """

    dtype: str
    shape: tuple[int, ...]
    data: bytearray  # an array over bytes would be read-only

    @classmethod
    def of(cls, array: NumpyArray) -> Self:
        """Return a packed copy of an array."""
        if array.dtype == object:
            array = array.astype(str)  # the bytes of objects are addresses
        name = array.dtype.str if array.dtype.kind == "U" else array.dtype.name
        return cls(name, array.shape, bytearray(array.tobytes()))

    def array(self) -> NumpyArray:
        """Return the array; it is writable and shares memory with ``data``."""
        import numpy as np

        array = np.frombuffer(self.data, numpy_dtype(self.dtype)).reshape(self.shape)
        return array.astype(object) if array.dtype.kind == "U" else array
