"""Checks that TensorRT is whole, and that the driver and the GPU fit it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import enginebay as eb
from enginebay.environment import (
    Tier,
    check_custom_ops,
    check_import,
    failed,
    installed_version,
    passed,
)
from enginebay.errors import EnginebayError

if TYPE_CHECKING:
    from enginebay.hooks import CheckEnvRequest
    from enginebay_tensorrt.params import TensorrtParams

CUDA_MAJORS = ("12", "13")

#: The first drivers for each CUDA, on Linux: https://docs.nvidia.com/cuda/cuda-toolkit-release-notes
_DRIVERS = {"12": "525.60", "13": "580.65"}
_UNINSTALL = " ".join(
    f"tensorrt-cu{major}{part}" for major in CUDA_MAJORS for part in ("", "-bindings", "-libs")
)


def check_tier(request: CheckEnvRequest[TensorrtParams]) -> eb.EnvReport:
    """Run the checks of one tier; the smoke tier is core's."""
    params = request.params
    if request.tier is Tier.METADATA:
        return _check_wheels()
    if request.tier is Tier.IMPORT:
        return _check_imports(params)
    if request.tier is Tier.DEVICE:
        return _check_device(params, with_plugins=request.with_custom_ops)
    return eb.EnvReport()


# -- metadata: which wheels? ----------------------------------------------------------------------


def _wheels(part: str) -> dict[str, str]:
    """Return versions of the wheels ``tensorrt-cuNN`` + ``part`` by CUDA's major version."""
    found = {major: installed_version(f"tensorrt-cu{major}{part}") for major in CUDA_MAJORS}
    return {major: version for major, version in found.items() if version is not None}


def _check_wheels() -> eb.EnvReport:
    bindings, libraries = _wheels("-bindings"), _wheels("-libs")
    found = [f"tensorrt-cu{m}-bindings {v}" for m, v in bindings.items()]
    found += [f"tensorrt-cu{m}-libs {v}" for m, v in libraries.items()]
    majors = sorted({*bindings, *libraries})
    if len(majors) > 1:
        return failed(
            Tier.METADATA,
            "one CUDA",
            found=", ".join(found),
            wanted="wheels for one version of CUDA: both write into the same folders",
            fix=f"pip uninstall -y {_UNINSTALL} && pip install 'enginebay-tensorrt[cu13]'",
        )
    if bindings and libraries and bindings != libraries:
        major = majors[0]
        return failed(
            Tier.METADATA,
            "one version",
            found=", ".join(found),
            wanted=f"bindings and libraries of one version: {bindings[major]}",
            fix=f"pip install --force-reinstall 'tensorrt-cu{major}=={bindings[major]}'",
        )
    return eb.EnvReport()


# -- import: bindings, libraries, CUDA's bindings -------------------------------------------------


def _check_imports(params: TensorrtParams) -> eb.EnvReport:
    from importlib.util import find_spec

    module = "tensorrt" if find_spec("tensorrt") else "tensorrt_bindings"
    report = check_import(module, wanted="TensorRT 10 or 11", fix=_install())
    broken = report.failed
    missing = re.search(r"lib(nv\w+)\.so\.(\d+): cannot open", broken.found if broken else "")
    if broken and missing:
        report = failed(
            Tier.IMPORT,
            "TensorRT's libraries",
            found=f"the bindings are here, lib{missing[1]}.so.{missing[2]} is not",
            wanted="the wheel with the libraries, or a folder of them in LD_LIBRARY_PATH",
            fix=f"pip install '{_libraries()}' --extra-index-url https://pypi.nvidia.com",
        )
    report += check_import(
        "cuda.bindings.runtime", fix=f"pip install 'cuda-bindings=={_wheels_major()}.*'"
    )
    if params.precision in ("fp16", "bf16"):
        report += check_import("onnx_ir", fix="pip install 'enginebay[export]'")
    if params.precision in ("int8", "fp8"):
        fix = "pip install 'enginebay-tensorrt[int8]'"
        report += check_import("onnxruntime.quantization", fix=fix)
    return report


def _wheels_major() -> str:
    """Return CUDA's major version that the installed bindings are for."""
    return next(iter(_wheels("-bindings")), "13")


def _install() -> str:
    return f"pip install --force-reinstall 'enginebay-tensorrt[cu{_wheels_major()}]'"


def _libraries() -> str:
    """Return the wheel of libraries that belongs to the installed bindings."""
    major, version = next(iter(_wheels("-bindings").items()), ("13", ""))
    return f"tensorrt-cu{major}-libs{f'=={version}' if version else ''}"


# -- device: driver, GPU, plugins -----------------------------------------------------------------


def _check_device(params: TensorrtParams, *, with_plugins: bool) -> eb.EnvReport:
    report = _check_driver()
    if report.ok:
        report += _check_gpu(params)
    if report.ok and with_plugins:
        report += _check_plugins(params)
    return report


def _check_driver() -> eb.EnvReport:
    from enginebay_tensorrt import cuda

    number, runtime = (int(cuda.call(f"cuda{which}GetVersion")) for which in ("Driver", "Runtime"))
    # What TensorRT's wheel was made for, else what CUDA's bindings were.
    major = int(next(iter(_wheels("-bindings")), runtime // 1000))
    wanted = f"a driver for CUDA {major} ({_DRIVERS.get(str(major), 'newest')} or newer)"
    if not number:
        return failed(
            Tier.DEVICE,
            "driver",
            found="no NVIDIA driver (libcuda.so.1)",
            wanted=wanted,
            fix="install NVIDIA's driver; in a container, start it with --gpus all",
        )
    if number // 1000 < major:
        extra = f"pip install 'enginebay-tensorrt[cu{number // 1000}]'"
        other = f", or pip uninstall -y {_UNINSTALL} && {extra}"
        return failed(
            Tier.DEVICE,
            "driver",
            found=f"a driver for CUDA {cuda.version_text(number)}",
            wanted=wanted,
            fix="update NVIDIA's driver" + (other if str(number // 1000) in CUDA_MAJORS else ""),
        )
    if number // 1000 < runtime // 1000:
        return failed(
            Tier.DEVICE,
            "one CUDA",
            found=f"cuda-bindings for CUDA {runtime // 1000}, "
            f"a driver for CUDA {cuda.version_text(number)}",
            wanted=f"cuda-bindings for CUDA {number // 1000}, as TensorRT's wheels are",
            fix=f"pip install 'cuda-bindings=={number // 1000}.*'",
        )
    return passed(Tier.DEVICE, "driver", found=f"CUDA {cuda.version_text(number)}")


def _check_gpu(params: TensorrtParams) -> eb.EnvReport:
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
    device = cuda.device(index)
    return passed(
        Tier.DEVICE, params.device, found=f"{device.name}, sm {device.compute_capability}"
    )


def _check_plugins(params: TensorrtParams) -> eb.EnvReport:
    from pathlib import Path

    from enginebay_tensorrt.plugin_libraries import load_plugins

    return check_custom_ops(
        params.plugins or ("TensorRT's own plugins; no library is named in plugins",),
        lambda: load_plugins(map(Path, params.plugins)),
        fix="--plugins LIBRARY",
    )
