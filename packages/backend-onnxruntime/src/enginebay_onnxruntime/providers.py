"""Execution providers: those wanted, with their options, and the one that really works."""

from __future__ import annotations

import ctypes
import io
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.errors import ParamsError, nearest

if TYPE_CHECKING:
    import onnxruntime

    from enginebay_onnxruntime.params import OnnxruntimeParams

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
#: The library of NVIDIA's driver.
DRIVER = "libcuda.so.1"
_BY_DEVICE = {"cpu": (CPU,), "cuda": (CUDA, CPU)}
#: The providers that keep tensors in CUDA memory and number their device by ``device_id``.
ON_CUDA = (CUDA, "TensorrtExecutionProvider")


def wanted_providers(params: OnnxruntimeParams) -> tuple[str, ...]:
    """Return the requested providers, by name or through the device.

    Raises:
        ParamsError: The device is neither ``cpu`` nor ``cuda`` nor ``cuda:N`` nor ``auto``, or ONNX
            Runtime has no provider of that name.
    """
    kind, colon, index = params.device.partition(":")
    if params.device == "auto":
        kind = "cuda" if CUDA in available_providers() else "cpu"
    if kind not in _BY_DEVICE or (colon and not (kind == "cuda" and index.isdecimal())):
        raise ParamsError(
            f"device '{params.device}' is not one of ONNX Runtime's: "
            "wanted cpu, cuda, cuda:N or auto",
            hint="pass --device cpu, or name the provider with --providers",
        )
    for provider in params.providers:
        _check_name(provider)
    return params.providers or _BY_DEVICE[kind]


def _check_name(provider: str) -> None:
    from onnxruntime import get_all_providers

    known = get_all_providers()
    if provider not in known:
        close = nearest(provider, known)
        raise ParamsError(
            f"provider '{provider}' is not one of ONNX Runtime's: "
            f"this build has {', '.join(available_providers())}",
            hint=f"did you mean '{close}'?" if close else "leave --providers out",
        )


def available_providers() -> list[str]:
    """Return the providers that this build of ONNX Runtime has; some of them may fail to load."""
    import onnxruntime

    return list(onnxruntime.get_available_providers())


def provider_options(params: OnnxruntimeParams) -> dict[str, dict[str, str]]:
    """Return the options of each wanted provider, the device's number included.

    Raises:
        ParamsError: An option names no provider, or one that is not wanted.
    """
    options: dict[str, dict[str, str]] = {name: {} for name in wanted_providers(params)}
    if CUDA in options:
        # fp32 is fp32: TF32, whose mantissa has 10 bits, is ONNX Runtime's default from Ampere on.
        options[CUDA]["use_tf32"] = "0"
    _, _, index = params.device.partition(":")
    for name in ON_CUDA:
        if index and name in options:
            options[name]["device_id"] = index
    for key, value in params.provider_options.items():
        name, _, option = key.partition(".")
        if name not in options or not option:
            raise ParamsError(
                f"provider option '{key}={value}' belongs to no provider that is used: "
                f"wanted PROVIDER.OPTION=VALUE with one of {', '.join(options)}",
                hint="name the provider with --providers, or leave the option out",
            )
        options[name][option] = value
    return options


def preload_cuda() -> None:
    """Load CUDA's libraries from NVIDIA's wheels, where the system's loader does not look."""
    import onnxruntime

    with redirect_stdout(io.StringIO()):  # it prints what it does not find
        onnxruntime.preload_dlls()


def missing_library(provider: str) -> str:
    """Return which shared library keeps CUDA's provider from loading.

    Empty where none does, of other providers, and where this build has no CUDA.
    """
    import onnxruntime

    if provider != CUDA or CUDA not in available_providers():
        return ""
    preload_cuda()
    file = Path(onnxruntime.__file__).parent / "capi" / "libonnxruntime_providers_cuda.so"
    for library in (file, DRIVER):
        try:
            # Where nothing is missing the provider still does not load: its symbols are ONNX
            # Runtime's to give. So this leaves nothing behind.
            ctypes.CDLL(str(library))
        except OSError as err:
            if "cannot open shared object file" in str(err):
                return str(err).partition(":")[0]
    return ""


def records_nodes(params: OnnxruntimeParams) -> bool:
    """True if a session records which provider takes which node."""
    return wanted_providers(params)[0] != CPU


def node_counts(params: OnnxruntimeParams, session: onnxruntime.InferenceSession) -> Counter[str]:
    """Count the nodes that each provider took; empty where the session did not record them."""
    counts: Counter[str] = Counter()
    if not records_nodes(params) or not hasattr(session, "get_provider_graph_assignment_info"):
        return counts  # the method is there since ONNX Runtime 1.24
    for part in session.get_provider_graph_assignment_info():
        counts[part.ep_name] += len(part.get_nodes())
    return counts


def working_provider(session: onnxruntime.InferenceSession, counts: Counter[str]) -> str:
    """Return the first provider that loaded and took a node."""
    loaded: list[str] = session.get_providers()
    return next((name for name in loaded if counts[name]), loaded[0])


def fallbacks(
    params: OnnxruntimeParams, session: onnxruntime.InferenceSession, counts: Counter[str]
) -> tuple[str, ...]:
    """Return one sentence for each provider that was requested and does not work."""
    wanted, loaded = wanted_providers(params), session.get_providers()
    found = [_unloaded(name) for name in wanted if name not in loaded]
    if counts and wanted[0] in loaded and not counts[wanted[0]]:
        found.append(f"{wanted[0]} was requested and takes no node of this model")
    if params.device not in ("cpu", "auto") and not any(name in ON_CUDA for name in wanted):
        found.append(f"device {params.device} was requested, and the providers do not use it")
    return tuple(found)


def _unloaded(provider: str) -> str:
    missing = missing_library(provider)
    return f"{provider} was requested and did not load" + (f": no {missing}" if missing else "")


def device_of(provider: str, session: onnxruntime.InferenceSession) -> str:
    """Return a provider's device in torch's words: ``cpu`` or ``cuda:0``."""
    if provider not in ON_CUDA:
        return "cpu"
    index = session.get_provider_options().get(provider, {}).get("device_id", "0")
    return f"cuda:{index}"
