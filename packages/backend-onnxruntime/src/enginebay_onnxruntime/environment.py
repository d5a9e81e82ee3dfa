"""Checks that exactly one wheel of ONNX Runtime is installed, with the requested providers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import enginebay as eb
from enginebay.environment import (
    Tier,
    check_custom_ops,
    check_import,
    failed,
    install_command,
    installed_version,
    passed,
)

if TYPE_CHECKING:
    from enginebay.hooks import CheckEnvRequest
    from enginebay_onnxruntime.params import OnnxruntimeParams

#: Wheels that write into the same folder: the last installed wheel breaks the other.
RIVALS = ("onnxruntime", "onnxruntime-gpu")


def check_tier(request: CheckEnvRequest[OnnxruntimeParams]) -> eb.EnvReport:
    """Return the report of the ``check-env`` stage in ``request.tier``.

    The report is empty for the smoke stage, in which Enginebay's core runs a tiny model.
    """
    if request.tier is Tier.METADATA:
        return _check_rivals()
    if request.tier is Tier.IMPORT:
        return check_import("onnxruntime", fix=_install_command(request))
    if request.tier is Tier.DEVICE:
        return _check_device(request)
    return eb.EnvReport()


def _install_command(request: CheckEnvRequest[OnnxruntimeParams]) -> str:
    extra = "gpu" if request.params.device.startswith("cuda") else "cpu"
    return install_command(f"enginebay-onnxruntime[{extra}]", "--force-reinstall")


def _check_rivals() -> eb.EnvReport:
    found = {name: installed_version(name) for name in RIVALS}
    if None in found.values():
        return eb.EnvReport()
    return failed(
        Tier.METADATA,
        "one onnxruntime",
        found=" and ".join(f"{name} {number}" for name, number in found.items()),
        wanted="only one of them: both write into the folder onnxruntime/",
        # Both are uninstalled, since uninstalling one wheel deletes files of the other.
        fix="pip uninstall -y onnxruntime onnxruntime-gpu && "
        "pip install onnxruntime-gpu  # or onnxruntime, for a machine without a GPU",
    )


def _check_device(request: CheckEnvRequest[OnnxruntimeParams]) -> eb.EnvReport:
    from enginebay_onnxruntime.providers import (
        DRIVER,
        available_providers,
        find_missing_library,
        resolve_providers,
    )

    params = request.params
    available = available_providers()
    report = eb.EnvReport()
    for provider in resolve_providers(params):
        if missing := find_missing_library(provider):
            driver = "install NVIDIA's driver; in a container, start it with --gpus all"
            libraries = "pip install 'onnxruntime-gpu[cuda,cudnn]'"
            fix = driver if missing == DRIVER else libraries
            report += failed(Tier.DEVICE, provider, found=f"no {missing}", fix=fix)
        elif provider in available:
            report += passed(Tier.DEVICE, provider, found="compiled in")
        else:
            report += failed(
                Tier.DEVICE,
                provider,
                found=f"a build with {', '.join(available)}",
                wanted=provider,
                fix=_install_command(request),
            )
    return report + _check_custom_ops(params) if request.with_custom_ops else report


def _check_custom_ops(params: OnnxruntimeParams) -> eb.EnvReport:
    from onnxruntime import SessionOptions

    from enginebay_onnxruntime.custom_ops import find_libraries, register_libraries

    names = params.custom_ops or ("onnxruntime_extensions",)
    return check_custom_ops(
        names,
        lambda: register_libraries(find_libraries(names), SessionOptions()),
        fix="--custom-ops LIBRARY",
    )
