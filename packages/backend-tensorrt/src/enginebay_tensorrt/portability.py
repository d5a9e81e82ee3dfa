"""Determine the machines on which an engine runs and computes correctly."""

from __future__ import annotations

import platform
import re
from typing import TYPE_CHECKING

from enginebay.errors import BackendUnavailableError, MissingDependencyError, ParamsError
from enginebay.hooks import BuiltFor
from enginebay_tensorrt import cuda
from enginebay_tensorrt.library import get_library
from enginebay_tensorrt.params import CURRENT, TensorrtRtxParams

if TYPE_CHECKING:
    from enginebay_tensorrt.library import Library
    from enginebay_tensorrt.params import Params, TensorrtParams

#: The compute capability of the first Ampere GPU.
_AMPERE = (8, 0)
_PORTABLE = "Ampere or newer"


def bound_to(params: Params) -> dict[str, str]:
    """Return the properties of this machine that an engine with these parameters depends on.

    Raises:
        BackendUnavailableError: The engine is for this machine's GPU, and CUDA finds no GPU.
    """
    if isinstance(params, TensorrtRtxParams):
        return {"tensorrt-rtx": get_library(params).version, **_chosen_facts(params)}
    version = get_library(params).version
    return {
        # All newer versions with the same major version load a version compatible engine.
        "tensorrt": version.partition(".")[0] if params.version_compatible else version,
        "platform": f"{platform.system()} {platform.machine()}",
        **_hardware_facts(cuda.device(params), params.hardware_compatibility),
    }


def _hardware_facts(device: cuda.Device, compatibility: str) -> dict[str, str]:
    capability = device.compute_capability
    if compatibility == "same_compute_capability":
        return {"compute_capability": capability}
    if compatibility == "ampere_plus":
        # Loading compares the texts for equality, so all newer GPUs share one text.
        return {"gpu_generation": _PORTABLE if _is_ampere(device) else f"older, sm {capability}"}
    return {"gpu": device.name, "compute_capability": capability}


def _is_ampere(device: cuda.Device) -> bool:
    return _parse_capability(device) >= _AMPERE


def _parse_capability(device: cuda.Device) -> tuple[int, int]:
    major, _, minor = device.compute_capability.partition(".")
    return int(major), int(minor)


# -- TensorRT for RTX: engines for the compute capabilities in the parameters ---------------------


def resolve_capabilities(library: Library, params: Params) -> list[str]:
    """Return TensorRT's names of the compute capabilities that the parameters list.

    If the parameters list none, return an empty list: TensorRT for RTX then builds for all GPUs of
    Ampere and newer generations or, in precision fp8, of Ada and newer generations.

    Raises:
        ParamsError: The library does not support a compute capability, or ``current`` is combined
            with other compute capabilities.
    """
    names = [_capability_member(text) for text in params.compute_capability]
    known = [name for name in library.trt.ComputeCapability.__members__ if name != "NONE"]
    for name, text in zip(names, params.compute_capability, strict=True):
        if name not in known:
            raise ParamsError(
                f"compute_capability '{text}' is not supported by {library.title}; "
                f"available: {', '.join(map(str.lower, known))}",
                hint="leave out --compute-capability to build for Ampere and newer",
            )
    if len(names) > 1 and CURRENT.upper() in names:
        raise ParamsError(
            f"compute_capability '{CURRENT}' cannot be combined with other values",
            hint=f"write this machine's compute capability instead of {CURRENT}: "
            "--compute-capability "
            + ",".join(name.lower() for name in names if name != CURRENT.upper()),
        )
    return list(dict.fromkeys(names))


def _capability_member(text: str) -> str:
    """Convert a compute capability to TensorRT's name: ``sm89``, ``8.9`` or ``89`` to ``SM89``."""
    digits = re.fullmatch(r"(?:sm_?)?(\d+)\.?(\d)", text.lower())
    return f"SM{digits[1]}{digits[2]}" if digits else text.upper()


def _format_capability(member: str) -> str:
    """Convert TensorRT's name of a compute capability to CUDA's name: ``SM89`` to ``8.9``."""
    return f"{member[2:-1]}.{member[-1]}"


def needs_device(params: Params) -> bool:
    """Return True if the engine is for this machine's GPU only, and must be built on this GPU."""
    return [text.lower() for text in params.compute_capability] == [CURRENT]


def _chosen_facts(params: TensorrtRtxParams) -> dict[str, str]:
    if needs_device(params):
        return _hardware_facts(cuda.device(params), "none")
    target = ", ".join(_list_capabilities(params)) or f"{_oldest(params)[0]} or newer"
    device = _device_or_reason(params)
    if isinstance(device, str):  # building needs no GPU; loading reports its absence
        return {"compute_capability": target}
    return {
        "compute_capability": target if _is_supported(device, params) else device.compute_capability
    }


def _device_or_reason(params: Params) -> cuda.Device | str:
    """Return this machine's GPU, or the reason why the GPU cannot be used."""
    try:
        return cuda.device(params)
    except MissingDependencyError as err:
        return f"no GPU that can be detected: {err}"
    except BackendUnavailableError as err:
        return f"no usable GPU: {err}" if cuda.has_driver() else cuda.NO_DRIVER


def _list_capabilities(params: TensorrtRtxParams) -> list[str]:
    return [_format_capability(_capability_member(text)) for text in params.compute_capability]


def _oldest(params: TensorrtRtxParams) -> tuple[str, tuple[int, int]]:
    """Return generation and compute capability of the oldest GPU that a default build supports."""
    # The builder rejects fp8 for older GPUs, but only if they are listed explicitly.
    return ("Ada", (8, 9)) if params.precision == "fp8" else ("Ampere", _AMPERE)


def _is_supported(device: cuda.Device, params: TensorrtRtxParams) -> bool:
    if not params.compute_capability:
        return _parse_capability(device) >= _oldest(params)[1] and is_listed(device, params)
    return device.compute_capability in _list_capabilities(params)


def is_listed(device: cuda.Device, params: TensorrtRtxParams) -> bool:
    """Return True if TensorRT for RTX supports the GPU."""
    # It lists the compute capabilities that it supports, without Hopper's, and accepts newer ones.
    members = get_library(params).trt.ComputeCapability.__members__
    listed = [(int(name[2:-1]), int(name[-1])) for name in members if name.startswith("SM")]
    return _parse_capability(device) in listed or _parse_capability(device) > max(listed)


def built_for(params: Params) -> BuiltFor | None:
    """Return the GPUs that an engine is built for.

    Returns:
        A description of the GPUs; if this machine has no such GPU, also the reason. None if the
        engine is for this machine's GPU only.

    Raises:
        ParamsError: The library cannot build for these GPUs.
    """
    if isinstance(params, TensorrtRtxParams):
        return None if needs_device(params) else _built_for_chosen(params)
    return _built_for_compatible(params)


def _built_for_chosen(params: TensorrtRtxParams) -> BuiltFor:
    resolve_capabilities(get_library(params), params)
    names = _list_capabilities(params)
    machines = (
        f"a GPU of compute capability {' or '.join(names)}"
        if names
        else f"a GPU of {_oldest(params)[0]} or a newer generation"
    )
    device = _device_or_reason(params)
    if isinstance(device, str):
        return BuiltFor(machines, lacking=device)
    if _is_supported(device, params):
        return BuiltFor(machines)
    lacking = f"{device.name} of compute capability {device.compute_capability}"
    if not is_listed(device, params):
        lacking += f", on which {params.product.title} does not run"
    return BuiltFor(machines, lacking=lacking)


def _built_for_compatible(params: TensorrtParams) -> BuiltFor | None:
    if params.hardware_compatibility == "none":
        return None
    if params.hardware_compatibility == "ampere_plus":
        return BuiltFor("a GPU of Ampere or a newer generation")
    capability = cuda.device(params).compute_capability
    return BuiltFor(f"a GPU of compute capability {capability}")
