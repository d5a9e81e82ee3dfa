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
    skipped,
)
from enginebay.errors import EnginebayError, ParamsError

if TYPE_CHECKING:
    from enginebay.hooks import CheckEnvRequest
    from enginebay_onnxruntime.params import OnnxruntimeParams

#: The time limit of each stage of a check of a package that was not asked for.
_TRIAL_SECONDS = 20.0
#: Wheels that write into the same folder: the last installed wheel breaks the other.
RIVALS = ("onnxruntime", "onnxruntime-gpu")


def check_tier(request: CheckEnvRequest[OnnxruntimeParams]) -> eb.EnvReport:
    """Return the report of the ``check-env`` stage in ``request.tier``.

    In the smoke stage, Enginebay's core runs a tiny model with the requested providers, and this
    function checks the installed packages of others. Those that do not work are skipped.
    """
    if request.tier is Tier.METADATA:
        return _check_rivals() + _check_packages(request.params)
    if request.tier is Tier.IMPORT:
        return check_import("onnxruntime", fix=_install_command(request))
    if request.tier is Tier.DEVICE:
        return _check_device(request)
    return _try_packages(request)


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


def _check_packages(params: OnnxruntimeParams) -> eb.EnvReport:
    """Report the provider packages that are installed, and those for another ONNX Runtime."""
    from enginebay_onnxruntime.provider_packages import (
        find_module,
        find_requirement,
        list_installed,
    )

    report = eb.EnvReport()
    version = installed_version(RIVALS[0]) or installed_version(RIVALS[1])
    named = {find_module(name) for name in params.providers}
    for module, found, library in list_installed():
        wanted = find_requirement(found, version) if version else ""
        text = f"{found.version}, {library}"
        if not wanted:
            report += passed(Tier.METADATA, found.name, found=text)
        elif module in named:
            report += failed(
                Tier.METADATA,
                found.name,
                found=f"{found.version} with ONNX Runtime {version}",
                wanted=wanted,
                fix=f"pip install '{wanted}'",
            )
        else:
            text += f", which is made for {wanted}, not {version}: pip install '{wanted}'"
            report += skipped(Tier.METADATA, found.name, found=text)
    return report


def _try_packages(request: CheckEnvRequest[OnnxruntimeParams]) -> eb.EnvReport:
    """Check each installed provider package in processes of its own, if no provider is named."""
    from enginebay_onnxruntime.provider_packages import list_installed

    report = eb.EnvReport()
    if request.params.providers or request.params.device != "cpu":
        return report
    for module, found, _ in list_installed():
        params = request.params.replace(providers=(module,))
        checks = eb.get_backend(request.backend).check_env(params, timeout=_TRIAL_SECONDS)
        if failure := checks.failed:
            text = f"{failure.found}; see enginebay check-env onnxruntime --providers {module}"
            report += skipped(Tier.SMOKE, found.name, found=text)
        else:
            report += passed(Tier.SMOKE, found.name, found=checks.checks[-1].found)
    return report


def _check_device(request: CheckEnvRequest[OnnxruntimeParams]) -> eb.EnvReport:
    from enginebay_onnxruntime.provider_packages import find_module
    from enginebay_onnxruntime.providers import (
        DRIVER,
        available_providers,
        find_missing_library,
        is_packaged,
        resolve_providers,
    )

    params = request.params
    available = available_providers()
    report = eb.EnvReport()
    try:
        providers = resolve_providers(params)
    except ParamsError as err:
        # A kind of device that the backend lists, but that these providers do not have.
        kind = params.device.partition(":")[0]
        if kind not in ("npu", "gpu", "cuda") or not all(map(find_module, params.providers)):
            raise
        package = "--providers onnxruntime_qnn, or another package of the device's vendor"
        fix = (err.hint or "") if params.providers else package
        return failed(Tier.DEVICE, params.device, found=str(err), fix=fix)
    for provider in providers:
        if is_packaged(provider):
            report += _check_package(provider, params)
        elif missing := find_missing_library(provider):
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


def _check_package(name: str, params: OnnxruntimeParams) -> eb.EnvReport:
    from enginebay_onnxruntime.provider_packages import plug_in

    try:
        provider = plug_in(name, params.device)
    except EnginebayError as err:
        return failed(Tier.DEVICE, name, found=str(err), fix=err.hint or "")
    text = f"{provider.package}, device {provider.device} of {provider.handle.device.vendor}"
    return passed(Tier.DEVICE, provider.name, found=text)


def _check_custom_ops(params: OnnxruntimeParams) -> eb.EnvReport:
    from onnxruntime import SessionOptions

    from enginebay_onnxruntime.custom_ops import find_libraries, register_libraries

    names = params.custom_ops or ("onnxruntime_extensions",)
    return check_custom_ops(
        names,
        lambda: register_libraries(find_libraries(names), SessionOptions()),
        fix="--custom-ops LIBRARY",
    )
