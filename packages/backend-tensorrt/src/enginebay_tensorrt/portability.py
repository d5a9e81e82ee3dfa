"""The machines that an engine runs on: elsewhere TensorRT refuses it, or runs it wrong."""

from __future__ import annotations

import platform
import re
from typing import TYPE_CHECKING

from enginebay.errors import BackendUnavailableError, MissingDependencyError, ParamsError
from enginebay.hooks import BuiltFor
from enginebay_tensorrt import cuda
from enginebay_tensorrt.library import library_of
from enginebay_tensorrt.params import CURRENT, TensorrtRtxParams

if TYPE_CHECKING:
    from enginebay_tensorrt.library import Library
    from enginebay_tensorrt.params import Params, TensorrtParams

#: The compute capability of the first Ampere.
_AMPERE = (8, 0)
_PORTABLE = "Ampere or newer"


def bound_to(params: Params) -> dict[str, str]:
    """Return the facts of this machine that an engine with these parameters depends on.

    Raises:
        BackendUnavailableError: The engine is for this machine's GPU, and CUDA finds none.
    """
    if isinstance(params, TensorrtRtxParams):
        return {"tensorrt-rtx": library_of(params).version, **_chosen(params)}
    version = library_of(params).version
    return {
        "tensorrt": version.partition(".")[0] if params.version_compatible else version,
        "platform": f"{platform.system()} {platform.machine()}",
        **_hardware(cuda.device(params), params.hardware_compatibility),
    }


def _hardware(device: cuda.Device, compatibility: str) -> dict[str, str]:
    capability = device.compute_capability
    if compatibility == "same_compute_capability":
        return {"compute_capability": capability}
    if compatibility == "ampere_plus":
        # Compared for equality when an artifact is loaded, so every newer GPU has one text.
        return {"gpu_generation": _PORTABLE if _is_ampere(device) else f"older, sm {capability}"}
    return {"gpu": device.name, "compute_capability": capability}


def _is_ampere(device: cuda.Device) -> bool:
    return _numbers(device) >= _AMPERE


def _numbers(device: cuda.Device) -> tuple[int, int]:
    major, _, minor = device.compute_capability.partition(".")
    return int(major), int(minor)


# -- TensorRT for RTX: built for chosen compute capabilities, here or elsewhere -------------------


def capabilities(library: Library, params: Params) -> list[str]:
    """Return the members of ``trt.ComputeCapability`` to build for; none for Ampere and newer.

    Raises:
        ParamsError: The library has no such capability, or others stand beside ``current``.
    """
    names = [_member(text) for text in params.compute_capability]
    known = [name for name in library.trt.ComputeCapability.__members__ if name != "NONE"]
    for name, text in zip(names, params.compute_capability, strict=True):
        if name not in known:
            raise ParamsError(
                f"compute_capability '{text}' is not in {library.title}: "
                f"it has {', '.join(map(str.lower, known))}",
                hint="leave it out for every GPU from Ampere on",
            )
    if len(names) > 1 and CURRENT.upper() in names:
        raise ParamsError(
            f"compute_capability {CURRENT} stands beside others: wanted it alone",
            hint="name this machine's too: --compute-capability "
            + ",".join(name.lower() for name in names if name != CURRENT.upper()),
        )
    return list(dict.fromkeys(names))


def _member(text: str) -> str:
    """The name of a capability: ``SM89`` for ``sm89``, ``8.9`` and ``89``."""
    digits = re.fullmatch(r"(?:sm_?)?(\d+)\.?(\d)", text.lower())
    return f"SM{digits[1]}{digits[2]}" if digits else text.upper()


def _decimal(member: str) -> str:
    """The usual text of a capability: ``8.9`` for ``SM89``."""
    return f"{member[2:-1]}.{member[-1]}"


def needs_device(params: Params) -> bool:
    """Return True if an engine is built for this machine's GPU, and so on it."""
    return [text.lower() for text in params.compute_capability] == [CURRENT]


def _chosen(params: TensorrtRtxParams) -> dict[str, str]:
    if needs_device(params):
        return _hardware(cuda.device(params), "none")
    wanted = ", ".join(_decimals(params)) or f"{_oldest(params)[0]} or newer"
    device = _device_or_reason(params)
    if isinstance(device, str):  # none is needed to build; loading says what is missing
        return {"compute_capability": wanted}
    return {"compute_capability": wanted if _fits(device, params) else device.compute_capability}


def _device_or_reason(params: Params) -> cuda.Device | str:
    """This machine's GPU, or why it has none."""
    try:
        return cuda.device(params)
    except MissingDependencyError as err:
        return f"no way to find its GPU: {err}"
    except BackendUnavailableError as err:
        return str(err) if cuda.has_driver() else cuda.NO_DRIVER


def _decimals(params: TensorrtRtxParams) -> list[str]:
    return [_decimal(_member(text)) for text in params.compute_capability]


def _oldest(params: TensorrtRtxParams) -> tuple[str, tuple[int, int]]:
    """The first generation, and its compute capability, for engines for no GPU in particular."""
    # The builder refuses fp8 for the GPUs before, and says nothing where none is named.
    return ("Ada", (8, 9)) if params.precision == "fp8" else ("Ampere", _AMPERE)


def _fits(device: cuda.Device, params: TensorrtRtxParams) -> bool:
    if not params.compute_capability:
        return _numbers(device) >= _oldest(params)[1] and is_listed(device, params)
    return device.compute_capability in _decimals(params)


def is_listed(device: cuda.Device, params: TensorrtRtxParams) -> bool:
    """Return True if TensorRT for RTX runs on a GPU: it leaves out some, such as Hopper.

    It lists the compute capabilities that it runs on, and takes those after the last one as well.
    """
    members = library_of(params).trt.ComputeCapability.__members__
    listed = [(int(name[2:-1]), int(name[-1])) for name in members if name.startswith("SM")]
    return _numbers(device) in listed or _numbers(device) > max(listed)


def built_for(params: Params) -> BuiltFor | None:
    """Return the GPUs that an engine is for, and why this machine has none of them.

    Returns:
        None for an engine that is for this machine's GPU alone.

    Raises:
        ParamsError: The library cannot build for them.
    """
    if isinstance(params, TensorrtRtxParams):
        return None if needs_device(params) else _built_for_chosen(params)
    return _built_for_compatible(params)


def _built_for_chosen(params: TensorrtRtxParams) -> BuiltFor:
    capabilities(library_of(params), params)
    names = _decimals(params)
    machines = (
        f"a GPU of compute capability {' or '.join(names)}"
        if names
        else f"a GPU of {_oldest(params)[0]} or a newer generation"
    )
    device = _device_or_reason(params)
    if isinstance(device, str):
        return BuiltFor(machines, lacking=device)
    if _fits(device, params):
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
