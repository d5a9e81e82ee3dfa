"""What an engine is bound to: TensorRT refuses it elsewhere, or runs it wrong."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from enginebay_tensorrt import cuda
from enginebay_tensorrt.bindings import trt

if TYPE_CHECKING:
    from enginebay_tensorrt.params import TensorrtParams

#: The compute capability of the first Ampere.
_AMPERE = (8, 0)


def bound_to(params: TensorrtParams) -> dict[str, str]:
    """The facts of this machine that an engine with these parameters depends on.

    Raises:
        BackendUnavailableError: The device does not answer.
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
        newer = (int(major), int(minor)) >= _AMPERE
        return {"gpu_generation": "Ampere or newer" if newer else f"older, sm {capability}"}
    return {"gpu": device.name, "compute_capability": capability}
