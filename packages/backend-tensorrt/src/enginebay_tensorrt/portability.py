"""The machines that an engine runs on: elsewhere TensorRT refuses it, or runs it wrong."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from enginebay_tensorrt import cuda
from enginebay_tensorrt.installation import trt

if TYPE_CHECKING:
    from enginebay_tensorrt.params import TensorrtParams

#: The compute capability of the first Ampere.
_AMPERE = (8, 0)


def bound_to(params: TensorrtParams) -> dict[str, str]:
    """Return the facts of this machine that an engine with these parameters depends on.

    Raises:
        BackendUnavailableError: CUDA finds no such device.
    """
    device = cuda.device(params.device_index)
    major = trt.__version__.partition(".")[0]
    return {
        "tensorrt": major if params.version_compatible else trt.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
        **_hardware(device, params.hardware_compatibility),
    }


def _hardware(device: cuda.Device, compatibility: str) -> dict[str, str]:
    capability = device.compute_capability
    if compatibility == "same_compute_capability":
        return {"compute_capability": capability}
    if compatibility == "ampere_plus":
        major, _, minor = capability.partition(".")
        is_new = (int(major), int(minor)) >= _AMPERE
        # Compared for equality when an artifact is loaded, so every newer GPU has one text.
        return {"gpu_generation": "Ampere or newer" if is_new else f"older, sm {capability}"}
    return {"gpu": device.name, "compute_capability": capability}
