"""The names of the devices that OpenVINO supports, and of the devices that this machine has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import ParamsError

if TYPE_CHECKING:
    import openvino as ov

#: The devices that OpenVINO supports, even if this machine does not have them.
KNOWN = ("CPU", "GPU", "NPU", "AUTO")


def available_devices(core: ov.Core) -> tuple[str, ...]:
    """Return OpenVINO's names of this machine's devices: ``CPU``, ``GPU.0``."""
    return tuple(core.available_devices)


def resolve_device(device: str, available: tuple[str, ...]) -> str:
    """Return OpenVINO's name of a device, even if this machine does not have the device.

    Args:
        device: The device in the params, in upper or lower case.
        available: The result of :func:`available_devices`.

    Raises:
        ParamsError: OpenVINO has no such device.

    Example:
        >>> resolve_device("gpu.1", ("CPU",))
        'GPU.1'
    """
    name = device.upper()
    kind, dot, number = name.partition(".")
    if name in available or (kind in KNOWN and (number.isdecimal() if dot else True)):
        return name
    more = "".join(f", {other.lower()}" for other in available if other not in KNOWN)
    raise ParamsError(
        f"unknown device '{device}' for OpenVINO: expected cpu, gpu, gpu.N, npu or auto{more}",
        hint=f"this machine has {', '.join(available).lower()}",
    )


def is_available(name: str, available: tuple[str, ...]) -> bool:
    """Return True if this machine has a device; ``GPU`` matches any ``GPU.N``."""
    return name == "AUTO" or any(name in (other, other.partition(".")[0]) for other in available)
