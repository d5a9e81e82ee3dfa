"""Memory on the GPU, and pinned memory on the host, which successive calls reuse."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING

import numpy as np

from enginebay_tensorrt import cuda

if TYPE_CHECKING:
    from enginebay.authors.arrays import NumpyArray


class Staging:
    """The memory of one input or output on the GPU and on the host; it never shrinks.

    Attributes:
        device: The address on the GPU; 0 until the first :meth:`reserve`.
        host: The address on the host; this memory is pinned, so that copies run asynchronously.
    """

    def __init__(self) -> None:
        self.device = 0
        self.host = 0
        self._capacity = 0

    def reserve(self, nbytes: int) -> int:
        """Allocate ``nbytes`` on GPU and host if less is allocated; return the GPU address."""
        if nbytes > self._capacity or not self._capacity:
            self.free()  # first, so that old and new memory are never allocated at the same time
            capacity = max(nbytes, 1)  # TensorRT rejects address 0 even for an empty tensor
            self.device = int(cuda.call("cudaMalloc", capacity))
            self.host = int(cuda.call("cudaMallocHost", capacity))
            self._capacity = capacity
        return self.device

    def upload(self, array: NumpyArray, stream: int) -> None:
        """Start a copy of an array to the GPU; the caller may change the array at once."""
        array = np.ascontiguousarray(array)
        self.reserve(array.nbytes)
        ctypes.memmove(self.host, array.ctypes.data, array.nbytes)
        copy_async(self.device, self.host, array.nbytes, "HostToDevice", stream)

    def download(self, nbytes: int, stream: int) -> None:
        """Start a copy from GPU to host; call :meth:`read` when the stream has finished."""
        copy_async(self.host, self.device, nbytes, "DeviceToHost", stream)

    def read(self, shape: tuple[int, ...], dtype: np.dtype) -> NumpyArray:
        """Return a copy of the downloaded tensor."""
        array = np.empty(shape, dtype)
        ctypes.memmove(array.ctypes.data, self.host, array.nbytes)
        return array

    def free(self) -> None:
        """Free the memory on GPU and host."""
        if self._capacity:
            cuda.call("cudaFree", self.device)
            cuda.call("cudaFreeHost", self.host)
            self.device = self.host = self._capacity = 0


def copy_async(target: int, source: int, nbytes: int, direction: str, stream: int) -> None:
    """Enqueue a copy; ``direction`` is a ``cudaMemcpyKind`` such as ``HostToDevice``."""
    if nbytes:  # an empty tensor of torch has address 0
        kind = getattr(cuda.runtime().cudaMemcpyKind, f"cudaMemcpy{direction}")
        cuda.call("cudaMemcpyAsync", target, source, nbytes, kind, stream)


def count_bytes(shape: tuple[int, ...], dtype: np.dtype) -> int:
    """Return the size of a tensor in bytes.

    Example:
        >>> count_bytes((2, 3), np.dtype("float32"))
        24
    """
    return math.prod(shape) * dtype.itemsize
