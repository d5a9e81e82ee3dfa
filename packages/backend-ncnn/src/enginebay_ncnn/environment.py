"""Check that ncnn can be imported, that pnnx is installed, and that the device exists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import enginebay as eb
from enginebay.environment import Tier, check_custom_ops, check_import, failed, passed

if TYPE_CHECKING:
    from enginebay.hooks import CheckEnvRequest
    from enginebay_ncnn.params import NcnnParams

# Without --force-reinstall, pip does not replace damaged files of an installed package.
_FIX = "pip install --force-reinstall ncnn pnnx"


def check_tier(request: CheckEnvRequest[NcnnParams]) -> eb.EnvReport:
    """Return the report of the ``check-env`` stage in ``request.tier``.

    The report is empty for the metadata stage, which has no checks here, and for the smoke stage,
    in which Enginebay's core runs a tiny model.
    """
    if request.tier is Tier.IMPORT:
        return check_import("ncnn", fix=_FIX) + _check_pnnx()
    if request.tier is Tier.DEVICE:
        report = _check_device(request.params.device)
        return report + _check_layers(request.params) if request.with_custom_ops else report
    return eb.EnvReport()


def _check_pnnx() -> eb.EnvReport:
    from enginebay_ncnn.pnnx import find_program

    try:
        return passed(Tier.IMPORT, "pnnx", found=str(find_program()))
    except eb.EnginebayError as err:
        return failed(Tier.IMPORT, "pnnx", found=str(err), wanted="the program pnnx", fix=_FIX)


def _check_device(device: str) -> eb.EnvReport:
    import ncnn

    from enginebay_ncnn.params import parse_vulkan_index

    if (index := parse_vulkan_index(device)) is None:
        return passed(Tier.DEVICE, "cpu", found=f"{ncnn.get_cpu_count()} cores")
    count = ncnn.get_gpu_count()
    if index < count:
        return passed(Tier.DEVICE, device, found=ncnn.get_gpu_info(index).device_name())
    return failed(
        Tier.DEVICE,
        device,
        found=f"{count} Vulkan devices",
        wanted=f"at least {index + 1}",
        fix="install the Vulkan driver of the graphics card, or use --device cpu",
    )


def _check_layers(params: NcnnParams) -> eb.EnvReport:
    import ncnn

    from enginebay_ncnn.network import register_layers

    return check_custom_ops(
        params.custom_layers,
        lambda: register_layers(ncnn.Net(), params.custom_layers),
        fix="--custom-layers Type=package.module:Class",
    )
