"""Devices by OpenVINO's names, and those that this machine has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import ParamsError

if TYPE_CHECKING:
    import openvino as ov

#: The devices that users may name, whether or not this machine has them.
KNOWN = ("CPU", "GPU", "NPU", "AUTO")


def available_devices(core: ov.Core) -> tuple[str, ...]:
    """List the devices of this machine by OpenVINO's names: ``CPU``, ``GPU.0``."""
    return tuple(core.available_devices)


def openvino_device(device: str, available: tuple[str, ...]) -> str:
    """Return OpenVINO's name of a device, which this machine may not have.

    Args:
        device: The device of the params, in upper or lower case.
        available: The devices of :func:`available_devices`.

    Raises:
        ParamsError: OpenVINO has no such device.

    Example:
        >>> openvino_device("gpu.1", ("CPU",))
        'GPU.1'
    """
    name = device.upper()
    kind, dot, number = name.partition(".")
    if name in available or (kind in KNOWN and (number.isdecimal() if dot else True)):
        return name
    more = "".join(f", {found.lower()}" for found in available if found not in KNOWN)
    raise ParamsError(
        f"device '{device}' is not one of OpenVINO's: wanted cpu, gpu, gpu.N, npu or auto{more}",
        hint=f"this machine offers {', '.join(available).lower()}",
    )


def is_available(name: str, available: tuple[str, ...]) -> bool:
    """Return True if the runtime offers a device; ``GPU`` stands for any ``GPU.N``."""
    return name == "AUTO" or any(name in (found, found.partition(".")[0]) for found in available)
