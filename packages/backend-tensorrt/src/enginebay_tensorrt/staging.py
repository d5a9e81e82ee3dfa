"""Memory that is kept between calls: on the device, and of the same size pinned on the host."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING

import numpy as np

from enginebay_tensorrt import cuda

if TYPE_CHECKING:
    from enginebay.authors import NumpyArray


class Staging:
    """The memory of one input or output, on both sides; it grows and never shrinks.

    Attributes:
        device: The address on the device; 0 until :meth:`reserve`. Never of size 0: TensorRT
            refuses a null address even for an empty tensor.
        host: The address on the host, page-locked, so that copies need not wait for each other.
    """

    def __init__(self) -> None:
        self.device = 0
        self.host = 0
        self._capacity = 0

    def reserve(self, nbytes: int) -> int:
        """Reserve ``nbytes`` and return the address on the device."""
        if nbytes > self._capacity or not self._capacity:
            self.free()
            capacity = max(nbytes, 1)
            self.device = int(cuda.call("cudaMalloc", capacity))
            self.host = int(cuda.call("cudaMallocHost", capacity))
            self._capacity = capacity
        return self.device

    def upload(self, array: NumpyArray, stream: int) -> None:
        """Copy an array to the device; the array may change once this returns."""
        array = np.ascontiguousarray(array)
        self.reserve(array.nbytes)
        ctypes.memmove(self.host, array.ctypes.data, array.nbytes)
        copy(self.device, self.host, array.nbytes, "HostToDevice", stream)

    def download(self, nbytes: int, stream: int) -> None:
        """Start copying from the device; :meth:`read` once the stream is done."""
        copy(self.host, self.device, nbytes, "DeviceToHost", stream)

    def read(self, shape: tuple[int, ...], dtype: np.dtype) -> NumpyArray:
        """Return a copy of what was downloaded."""
        array = np.empty(shape, dtype)
        ctypes.memmove(array.ctypes.data, self.host, array.nbytes)
        return array

    def free(self) -> None:
        """Free the memory on both sides."""
        if self._capacity:
            cuda.call("cudaFree", self.device)
            cuda.call("cudaFreeHost", self.host)
            self.device = self.host = self._capacity = 0


def copy(target: int, source: int, nbytes: int, direction: str, stream: int) -> None:
    """Copy on a stream; ``direction`` is the end of a ``cudaMemcpyKind``'s name."""
    if nbytes:  # an empty tensor of torch's has address 0
        kind = getattr(cuda.runtime().cudaMemcpyKind, f"cudaMemcpy{direction}")
        cuda.call("cudaMemcpyAsync", target, source, nbytes, kind, stream)


def size_of(shape: tuple[int, ...], dtype: np.dtype) -> int:
    """Return the bytes that a tensor takes.

    Example:
        >>> size_of((2, 3), np.dtype("float32"))
        24
    """
    return math.prod(shape) * dtype.itemsize
