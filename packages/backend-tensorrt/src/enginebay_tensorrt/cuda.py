"""The CUDA runtime, called through NVIDIA's Python bindings."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.errors import BackendUnavailableError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay_tensorrt.params import Params

#: The text for a missing driver in messages and in check-env's report.
NO_DRIVER = "no NVIDIA driver (libcuda.so.1)"
INSTALL = "pip install 'cuda-bindings>=13,<14', or 'cuda-bindings>=12.6,<13' for CUDA 12"


class Device(msgspec.Struct, frozen=True):
    """A GPU.

    Attributes:
        index: The GPU's index in CUDA, such as 0 for ``cuda:0``.
        name: The name of the product, such as ``NVIDIA H200``.
        compute_capability: The compute capability, such as ``9.0``.
        driver: The newest version of CUDA that the driver supports, such as ``13.0``.
    """

    index: int
    name: str
    compute_capability: str
    driver: str


def runtime() -> Any:
    """Import the module ``cuda.bindings.runtime``, and return it.

    Raises:
        MissingDependencyError: The package is not installed.
    """
    try:
        from cuda.bindings import runtime as bindings
    except ImportError as err:
        raise MissingDependencyError(
            f"the CUDA runtime cannot be called: {err}", hint=INSTALL
        ) from err
    return bindings


def call(name: str, *arguments: object) -> Any:
    """Call a function of the CUDA runtime.

    Returns:
        The function's results without the status: None, one value, or a tuple of values.

    Raises:
        RuntimeError: The status is an error; the message includes CUDA's message.
    """
    cudart = runtime()
    status, *values = getattr(cudart, name)(*arguments)
    if status != cudart.cudaError_t.cudaSuccess:
        message = cudart.cudaGetErrorString(status)[1]
        message = message.decode() if isinstance(message, bytes) else message
        raise RuntimeError(f"{name} failed: {message} ({status.name})")
    return values[0] if len(values) == 1 else tuple(values) or None


def has_driver() -> bool:
    """Return True if NVIDIA's driver is installed."""
    return bool(call("cudaDriverGetVersion"))  # 0 without a driver


def format_version(number: int) -> str:
    """Format CUDA's version number, such as 12090, as text.

    Example:
        >>> format_version(12090)
        '12.9'
    """
    return f"{number // 1000}.{number % 1000 // 10}"


def device(params: Params) -> Device:
    """Return the properties of the GPU that the parameter ``device`` selects.

    Raises:
        BackendUnavailableError: The GPU or the driver was not found.
    """
    index = params.device_index
    try:
        facts = call("cudaGetDeviceProperties", index)
        driver = call("cudaDriverGetVersion")
    except RuntimeError as err:
        raise BackendUnavailableError(
            f"device cuda:{index} cannot be used: {err}",
            hint=f"enginebay check-env {params.product.backend}",
        ) from err
    name = facts.name.decode() if isinstance(facts.name, bytes) else str(facts.name)
    # The name is a C array, padded with zero bytes.
    return Device(
        index, name.rstrip("\0"), f"{facts.major}.{facts.minor}", format_version(int(driver))
    )


@contextmanager
def on_device(index: int) -> Iterator[None]:
    """Make a GPU the current CUDA device of the calling thread inside the ``with`` block."""
    previous = call("cudaGetDevice")
    if previous == index:
        yield
        return
    call("cudaSetDevice", index)
    try:
        yield
    finally:
        call("cudaSetDevice", previous)
