"""Checks that exactly one OpenVINO is installed, and that OpenVINO finds the requested device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import enginebay as eb
from enginebay.environment import (
    Tier,
    check_custom_ops,
    check_import,
    failed,
    install_command,
    passed,
)
from enginebay.errors import ParamsError

if TYPE_CHECKING:
    import openvino as ov

    from enginebay.hooks import CheckEnvRequest
    from enginebay_openvino.params import OpenvinoParams

#: Both wheels write into the same folder: the one installed last breaks the other.
RIVALS = ("openvino", "openvino-nightly")

# Without the option, pip does not replace a broken wheel of the same version.
_INSTALL = "pip install --force-reinstall openvino"
_DRIVERS = {
    "GPU": "install Intel's GPU driver (Debian, Ubuntu: apt install intel-opencl-icd)",
    "NPU": "install Intel's NPU driver: https://github.com/intel/linux-npu-driver/releases",
}


def check_tier(request: CheckEnvRequest[OpenvinoParams]) -> eb.EnvReport:
    """Return the report of the ``check-env`` stage in ``request.tier``.

    The report is empty for the smoke stage, in which Enginebay's core runs a tiny model.
    """
    params = request.params
    if request.tier is Tier.METADATA:
        return _check_rivals()
    if request.tier is Tier.IMPORT:
        return _check_imports(params)
    if request.tier is Tier.DEVICE:
        report = _check_device(params)
        return report + _check_extensions(params) if request.with_custom_ops else report
    return eb.EnvReport()


def _check_rivals() -> eb.EnvReport:
    from enginebay.environment import installed_version

    versions = {name: installed_version(name) for name in RIVALS}
    if None in versions.values():
        return eb.EnvReport()
    return failed(
        Tier.METADATA,
        "one openvino",
        found=" and ".join(f"{name} {number}" for name, number in versions.items()),
        wanted="only one of the two packages: both write into the folder openvino/",
        fix="pip uninstall -y openvino openvino-nightly && pip install openvino",
    )


def _check_imports(params: OpenvinoParams) -> eb.EnvReport:
    report = check_import("openvino", fix=_INSTALL)
    if params.precision == "int8":
        report += check_import("nncf", fix=install_command("enginebay-openvino[int8]"))
    return report


def _check_device(params: OpenvinoParams) -> eb.EnvReport:
    import openvino as ov

    from enginebay_openvino.devices import available_devices, is_available, resolve_device

    core = ov.Core()
    available = available_devices(core)
    try:
        name = resolve_device(params.device, available)
    except ParamsError as err:
        return failed(Tier.DEVICE, params.device, found=str(err), fix=err.hint or "")
    if is_available(name, available):
        report = passed(Tier.DEVICE, name, found=_describe_device(core, name, available))
        return report + _check_precision(core, name, params.precision)
    return failed(
        Tier.DEVICE,
        name,
        found=f"OpenVINO finds {', '.join(available)}",
        wanted=name,
        fix=_DRIVERS.get(name.partition(".")[0], "--device cpu"),
    )


def _describe_device(core: ov.Core, name: str, available: tuple[str, ...]) -> str:
    if name == "AUTO":
        return f"selects one of {', '.join(available)}"
    return str(core.get_property(name, "FULL_DEVICE_NAME"))


def _check_precision(core: ov.Core, name: str, precision: str) -> eb.EnvReport:
    # Every device computes in fp32, and AUTO has no capabilities of its own.
    if precision == "fp32" or name == "AUTO":
        return eb.EnvReport()
    capabilities = core.get_property(name, "OPTIMIZATION_CAPABILITIES")
    if precision.upper() in capabilities:
        return passed(Tier.DEVICE, precision, found=f"{name} supports it")
    return failed(
        Tier.DEVICE,
        precision,
        found=f"{name} supports {', '.join(capabilities)}",
        wanted=precision.upper(),
        fix="--precision fp32",
    )


def _check_extensions(params: OpenvinoParams) -> eb.EnvReport:
    import openvino as ov

    from enginebay_openvino.extensions import add_extensions

    return check_custom_ops(
        params.extensions,
        lambda: add_extensions(ov.Core(), params.extensions),
        fix="--extensions FILE",
    )
