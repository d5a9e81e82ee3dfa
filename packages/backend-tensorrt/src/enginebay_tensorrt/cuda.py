"""The CUDA runtime, called through NVIDIA's own bindings."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.errors import BackendUnavailableError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay_tensorrt.params import Params

#: What a machine without a driver is said to have.
NO_DRIVER = "no NVIDIA driver (libcuda.so.1)"
INSTALL = "pip install 'cuda-bindings>=13,<14', or 'cuda-bindings>=12.6,<13' for CUDA 12"


class Device(msgspec.Struct, frozen=True):
    """A GPU.

    Attributes:
        index: Its number.
        name: ``NVIDIA H200``.
        compute_capability: ``9.0``.
        driver: The newest CUDA that the driver supports: ``13.0``.
    """

    index: int
    name: str
    compute_capability: str
    driver: str


def runtime() -> Any:
    """Import ``cuda.bindings.runtime``.

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        from cuda.bindings import runtime as found
    except ImportError as err:
        raise MissingDependencyError(
            f"the CUDA runtime cannot be called: {err}", hint=INSTALL
        ) from err
    return found


def call(name: str, *arguments: Any) -> Any:
    """Call a function of the CUDA runtime.

    Returns:
        None, the value or the tuple of values that follow the status.

    Raises:
        RuntimeError: The status is not success; the message has CUDA's own words.
    """
    cudart = runtime()
    status, *values = getattr(cudart, name)(*arguments)
    if status != cudart.cudaError_t.cudaSuccess:
        message = cudart.cudaGetErrorString(status)[1]
        message = message.decode() if isinstance(message, bytes) else message
        raise RuntimeError(f"{name} failed: {message} ({status.name})")
    return values[0] if len(values) == 1 else tuple(values) or None


def has_driver() -> bool:
    """Return True if NVIDIA's driver is installed; the version of none is 0."""
    return bool(call("cudaDriverGetVersion"))


def version_text(number: int) -> str:
    """Format CUDA's number of a version.

    Example:
        >>> version_text(12090)
        '12.9'
    """
    return f"{number // 1000}.{number % 1000 // 10}"


def device(params: Params) -> Device:
    """Return the properties of the GPU that parameters name.

    Raises:
        BackendUnavailableError: There is no such GPU, or no driver.
    """
    index = params.device_index
    try:
        facts = call("cudaGetDeviceProperties", index)
        driver = call("cudaDriverGetVersion")
    except RuntimeError as err:
        raise BackendUnavailableError(
            f"device cuda:{index} does not answer: {err}",
            hint=f"enginebay check-env {params.product.backend}",
        ) from err
    name = facts.name.decode() if isinstance(facts.name, bytes) else str(facts.name)
    return Device(
        index, name.rstrip("\0"), f"{facts.major}.{facts.minor}", version_text(int(driver))
    )


@contextmanager
def on_device(index: int) -> Iterator[None]:
    """Make a GPU current in the calling thread, as TensorRT requires, and restore the old one."""
    before = call("cudaGetDevice")
    if before == index:
        yield
        return
    call("cudaSetDevice", index)
    try:
        yield
    finally:
        call("cudaSetDevice", before)
