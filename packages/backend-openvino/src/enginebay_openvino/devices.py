"""Which device runs the model: the one asked for, where the runtime offers it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import ParamsError

if TYPE_CHECKING:
    import openvino as ov

#: What this backend's users can ask for on some machine, if not on this one.
KNOWN = ("CPU", "GPU", "NPU", "AUTO")


def offered(core: ov.Core) -> tuple[str, ...]:
    """The devices of this machine, in OpenVINO's names: ``CPU``, ``GPU.0``."""
    return tuple(core.available_devices)


def openvino_device(device: str, available: tuple[str, ...]) -> str:
    """The device in OpenVINO's words, whether it is here or not.

    Args:
        device: As in the params, in any case.
        available: What :func:`offered` answered.

    Raises:
        ParamsError: There is no such device.

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


def is_here(name: str, available: tuple[str, ...]) -> bool:
    """Whether the runtime offers a device; ``GPU`` stands for any ``GPU.N``."""
    return name == "AUTO" or any(name in (found, found.partition(".")[0]) for found in available)
