"""Check that TensorRT is completely installed, and that the driver and the GPU are supported."""

from __future__ import annotations

import re
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
from enginebay.errors import EnginebayError
from enginebay_tensorrt.params import TensorrtRtxParams
from enginebay_tensorrt.portability import built_for, is_listed, needs_device

if TYPE_CHECKING:
    from enginebay.hooks import CheckEnvRequest
    from enginebay_tensorrt.params import Params
    from enginebay_tensorrt.products import Product

#: The oldest driver for each CUDA on Linux: https://docs.nvidia.com/cuda/cuda-toolkit-release-notes
_DRIVERS = {"12": "525.60", "13": "580.65"}


def check_tier(request: CheckEnvRequest[Params]) -> eb.EnvReport:
    """Return the report of the ``check-env`` stage in ``request.tier``.

    The report is empty for the smoke stage, in which Enginebay's core runs a tiny model.
    """
    params = request.params
    if request.tier is Tier.METADATA:
        return _check_wheels(params.product)
    if request.tier is Tier.IMPORT:
        return _check_imports(params)
    if request.tier is Tier.DEVICE:
        return _check_device(params, with_plugins=request.with_custom_ops)
    return eb.EnvReport()


# -- metadata: which wheels? ----------------------------------------------------------------------


def _find_wheels(product: Product, part: str) -> dict[str, str]:
    """Return a dict from CUDA's major version to the version of the installed wheel for it.

    ``part`` is the end of the wheels' names: ``-bindings`` or ``-libs``.
    """
    versions = {cuda: installed_version(wheel + part) for cuda, wheel in product.wheels.items()}
    return {cuda: version for cuda, version in versions.items() if version is not None}


def _check_wheels(product: Product) -> eb.EnvReport:
    bindings, libraries = (_find_wheels(product, part) for part in ("-bindings", "-libs"))
    wheels = [f"{product.wheels[m]}-bindings {v}" for m, v in bindings.items()]
    wheels += [f"{product.wheels[m]}-libs {v}" for m, v in libraries.items()]
    majors = sorted({*bindings, *libraries})
    if len(majors) > 1:
        return failed(
            Tier.METADATA,
            "one CUDA",
            found=", ".join(wheels),
            wanted="wheels for one version of CUDA: both write into the same folders",
            fix=f"{product.uninstall} && {product.install_for('13')}",
        )
    if bindings and libraries and bindings != libraries:
        version = bindings[majors[0]]
        requirements = " ".join(
            f"'{product.wheels[majors[0]]}{part}=={version}'" for part in ("-bindings", "-libs")
        )
        return failed(
            Tier.METADATA,
            "one version",
            found=", ".join(wheels),
            wanted=f"bindings and libraries of one version: {version}",
            fix=f"pip install --force-reinstall {requirements}{product.index}",
        )
    return eb.EnvReport()


# -- import: bindings, libraries, CUDA's bindings -------------------------------------------------


def _check_imports(params: Params) -> eb.EnvReport:
    from importlib.util import find_spec

    product = params.product
    module = next((name for name in product.modules if find_spec(name)), product.modules[-1])
    wanted = f"{product.title} {product.versions}"
    report = check_import(module, wanted=wanted, fix=_reinstall_command(product))
    broken = report.failed
    pattern = rf"({product.libraries}\w+)\.so\.(\d+): cannot open"
    missing = re.search(pattern, broken.found if broken else "")
    if broken and missing:
        report = failed(
            Tier.IMPORT,
            f"the libraries of {product.title}",
            found=f"the bindings, but not {missing[1]}.so.{missing[2]}",
            wanted="the wheel with the libraries, or a folder of them in LD_LIBRARY_PATH",
            fix=f"pip install '{_libraries_wheel(product)}'{product.index}",
        )
    elif report.ok and not needs_device(params):  # the builder works without a GPU: test it
        report += _check_builder(params)
    report += check_import(
        "cuda.bindings.runtime", fix=f"pip install 'cuda-bindings=={_wheels_major(product)}.*'"
    )
    if params.precision in ("fp16", "bf16"):
        report += check_import("onnx_ir", fix=install_command("enginebay[export]"))
    if params.precision in ("int8", "fp8"):
        fix = install_command("enginebay-tensorrt[int8]")
        report += check_import("onnxruntime.quantization", fix=fix)
    return report


def _check_builder(params: Params) -> eb.EnvReport:
    from enginebay_tensorrt.builder import build_identity

    name = "parser and builder"
    try:
        size = build_identity(params)
    except EnginebayError as err:
        return failed(
            Tier.IMPORT, name, found=str(err), fix=err.hint or _reinstall_command(params.product)
        )
    wanted = ", ".join(params.compute_capability) or "Ampere and newer"
    return passed(
        Tier.IMPORT, name, found=f"built an engine of {size:,} bytes for {wanted}, without a GPU"
    )


def _wheels_major(product: Product) -> str:
    """Return the major version of CUDA that the installed bindings require; 13 without bindings."""
    return next(iter(_find_wheels(product, "-bindings")), "13")


def _reinstall_command(product: Product) -> str:
    extra = product.extras[_wheels_major(product)]
    return install_command(f"enginebay-tensorrt[{extra}]", "--force-reinstall")


def _libraries_wheel(product: Product) -> str:
    """Return the pip requirement of the ``-libs`` wheel that fits the installed bindings."""
    major, version = next(iter(_find_wheels(product, "-bindings").items()), ("13", ""))
    return f"{product.wheels[major]}-libs{f'=={version}' if version else ''}"


# -- device: driver, GPU, plugins -----------------------------------------------------------------


def _check_device(params: Params, *, with_plugins: bool) -> eb.EnvReport:
    report = _check_driver(params.product)
    if report.ok:
        report += _check_gpu(params)
    if report.ok and with_plugins:
        report += _check_plugins(params)
    return report


def _check_driver(product: Product) -> eb.EnvReport:
    from enginebay_tensorrt import cuda

    number, runtime = (int(cuda.call(f"cuda{which}GetVersion")) for which in ("Driver", "Runtime"))
    # The CUDA that TensorRT's wheel was built for, or else the CUDA of cuda-bindings.
    major = int(next(iter(_find_wheels(product, "-bindings")), runtime // 1000))
    wanted = f"a driver for CUDA {major} ({_DRIVERS.get(str(major), 'newest')} or newer)"
    if not number:
        return failed(
            Tier.DEVICE,
            "driver",
            found=cuda.NO_DRIVER,
            wanted=wanted,
            fix="install NVIDIA's driver; in a container, start it with --gpus all",
        )
    if number // 1000 < major:
        older = str(number // 1000)
        other = ""
        if older in product.wheels:
            other = f", or {product.uninstall} && {product.install_for(older)}"
        return failed(
            Tier.DEVICE,
            "driver",
            found=f"a driver for CUDA {cuda.format_version(number)}",
            wanted=wanted,
            fix=f"update NVIDIA's driver{other}",
        )
    if number // 1000 < runtime // 1000:
        return failed(
            Tier.DEVICE,
            "one CUDA",
            found=f"cuda-bindings for CUDA {runtime // 1000}, "
            f"a driver for CUDA {cuda.format_version(number)}",
            wanted=f"cuda-bindings for CUDA {number // 1000}, like TensorRT's wheels",
            fix=f"pip install 'cuda-bindings=={number // 1000}.*'",
        )
    return passed(Tier.DEVICE, "driver", found=f"CUDA {cuda.format_version(number)}")


def _check_gpu(params: Params) -> eb.EnvReport:
    from enginebay_tensorrt import cuda

    try:
        count = int(cuda.call("cudaGetDeviceCount"))
        index = params.device_index
    except RuntimeError as err:
        return failed(Tier.DEVICE, "GPU", found=str(err), wanted=params.device, fix="nvidia-smi")
    except EnginebayError as err:
        return failed(Tier.DEVICE, params.device, found=str(err), fix=err.hint or "")
    if index >= count:
        return failed(
            Tier.DEVICE,
            params.device,
            found=f"{count} GPU{'s' if count != 1 else ''}",
            wanted=f"cuda:{index}",
            fix="--device cuda:0",
        )
    device = cuda.device(params)
    found = f"{device.name}, sm {device.compute_capability}"
    # Without this check only the smoke test would fail, with the hint to build the engine again.
    if isinstance(params, TensorrtRtxParams) and not is_listed(device, params):
        wanted = f"a GPU that {params.product.title} runs on"
        fix = "use the backend tensorrt"
        return failed(Tier.DEVICE, params.device, found=found, wanted=wanted, fix=fix)
    other = built_for(params)
    if other is not None and other.lacking:
        fix = f"--compute-capability sm{device.compute_capability.replace('.', '')}"
        return failed(Tier.DEVICE, params.device, found=found, wanted=other.machines, fix=fix)
    return passed(Tier.DEVICE, params.device, found=found)


def _check_plugins(params: Params) -> eb.EnvReport:
    from pathlib import Path

    from enginebay_tensorrt.library import get_library
    from enginebay_tensorrt.plugin_libraries import load_plugins

    return check_custom_ops(
        params.plugins or ("only TensorRT's own plugins, since --plugins is empty",),
        lambda: load_plugins(get_library(params), map(Path, params.plugins)),
        fix="--plugins LIBRARY",
    )
