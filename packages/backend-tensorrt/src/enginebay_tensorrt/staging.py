"""Memory that outlives a call: one piece on the device, one of the same size pinned on the host."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING

import numpy as np

from enginebay_tensorrt import cuda

if TYPE_CHECKING:
    from enginebay.authors import NumpyArray


class Staging:
    """Both sides of one input or output; it grows and never shrinks.

    Attributes:
        device: The address on the device, never 0: TensorRT takes no null for an empty tensor.
        host: The address on the host, page-locked, so that copies need not wait for each other.
    """

    def __init__(self) -> None:
        self.device = 0
        self.host = 0
        self._capacity = 0

    def reserve(self, nbytes: int) -> int:
        """Make room for ``nbytes`` and answer the address on the device."""
        if nbytes > self._capacity or not self._capacity:
            self.free()
            capacity = max(nbytes, 1)
            self.device = int(cuda.call("cudaMalloc", capacity))
            self.host = int(cuda.call("cudaMallocHost", capacity))
            self._capacity = capacity
        return self.device

    def upload(self, array: NumpyArray, stream: int) -> None:
        """Copy an array to the device; it is free to change once this returns."""
        array = np.ascontiguousarray(array)
        self.reserve(array.nbytes)
        ctypes.memmove(self.host, array.ctypes.data, array.nbytes)
        copy(self.device, self.host, array.nbytes, "HostToDevice", stream)

    def download(self, nbytes: int, stream: int) -> None:
        """Start copying from the device; :meth:`read` once the stream is done."""
        copy(self.host, self.device, nbytes, "DeviceToHost", stream)

    def read(self, shape: tuple[int, ...], dtype: np.dtype) -> NumpyArray:
        """What was downloaded, as an array of its own."""
        array = np.empty(shape, dtype)
        ctypes.memmove(array.ctypes.data, self.host, array.nbytes)
        return array

    def free(self) -> None:
        """Give both pieces back."""
        if self._capacity:
            cuda.call("cudaFree", self.device)
            cuda.call("cudaFreeHost", self.host)
            self.device = self.host = self._capacity = 0


def copy(target: int, source: int, nbytes: int, direction: str, stream: int) -> None:
    """Copy on a stream; ``direction`` is the end of a ``cudaMemcpyKind``'s name."""
    if nbytes:  # an empty tensor of torch's lies at 0
        kind = getattr(cuda.runtime().cudaMemcpyKind, f"cudaMemcpy{direction}")
        cuda.call("cudaMemcpyAsync", target, source, nbytes, kind, stream)


def size_of(shape: tuple[int, ...], dtype: np.dtype) -> int:
    """The bytes that a tensor takes.

    Example:
        >>> size_of((2, 3), np.dtype("float32"))
        24
    """
    return math.prod(shape) * dtype.itemsize
