"""Resolves execution providers and their options, and finds the provider that runs the model."""

from __future__ import annotations

import ctypes
import io
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.errors import ParamsError, did_you_mean
from enginebay_onnxruntime.params import CUDA
from enginebay_onnxruntime.provider_packages import Provider, find_module, plug_in

if TYPE_CHECKING:
    import onnxruntime

    from enginebay_onnxruntime.params import OnnxruntimeParams

CPU = "CPUExecutionProvider"
#: The library of NVIDIA's driver.
DRIVER = "libcuda.so.1"
_BY_DEVICE = {"cpu": (CPU,), "cuda": (CUDA, CPU)}
#: The providers with tensors in CUDA memory, which select their device with ``device_id``.
ON_CUDA = (CUDA, "TensorrtExecutionProvider")


def resolve_providers(params: OnnxruntimeParams) -> tuple[str, ...]:
    """Return the parameter ``providers`` or, if it is empty, the providers of the device.

    Raises:
        ParamsError: The device is neither ``cpu`` nor ``cuda`` nor ``cuda:N`` nor ``auto``, and no
            device of a provider's package; or a provider is unknown to ONNX Runtime.
    """
    kind, colon, index = params.device.partition(":")
    if params.device == "auto":
        kind = "cuda" if CUDA in available_providers() else "cpu"
    for provider in params.providers:
        _check_provider(provider)
    if any(map(is_packaged, params.providers)):
        if params.device not in ("cpu", "auto") and (
            kind not in ("npu", "gpu") or (colon and not index.isdecimal())
        ):
            raise ParamsError(
                f"unknown device '{params.device}' for the provider of a package: "
                "expected cpu, auto, npu, npu:N, gpu or gpu:N",
                hint="leave out --device for the provider's own choice",
            )
        return params.providers
    params.check_device()
    return params.providers or _BY_DEVICE[kind]


def _check_provider(provider: str) -> None:
    from onnxruntime import get_all_providers

    known = get_all_providers()
    if provider not in known and not find_module(provider):
        name = provider.replace("_", "-")
        is_package = name.replace("-", "_").isidentifier() and not provider.endswith("Provider")
        raise ParamsError(
            f"unknown provider '{provider}'; available in this build of ONNX Runtime: "
            f"{', '.join(available_providers())}",
            hint=did_you_mean(provider, known) or (f"pip install {name}" if is_package else None),
        )


def is_packaged(provider: str) -> bool:
    """Return True if a requested provider is not one of ONNX Runtime's own, but a package's."""
    from onnxruntime import get_all_providers

    return provider not in get_all_providers()


def list_packaged(params: OnnxruntimeParams) -> dict[str, Provider]:
    """Register the requested providers that are in packages; return them by requested name."""
    names = filter(is_packaged, resolve_providers(params))
    return {name: plug_in(name, params.device) for name in names}


def demands_packaged(params: OnnxruntimeParams) -> bool:
    """Return True if the provider of a package must run every node.

    It must unless the providers include ONNX Runtime's for the CPU, or the device is ``auto``.
    """
    names = resolve_providers(params)
    return is_packaged(names[0]) and CPU not in names and params.device != "auto"


def available_providers() -> list[str]:
    """Return the providers that this build of ONNX Runtime has; some of them may fail to load."""
    import onnxruntime

    return list(onnxruntime.get_available_providers())


def provider_options(params: OnnxruntimeParams) -> dict[str, dict[str, str]]:
    """Return the options of each requested provider, including the device index.

    Raises:
        ParamsError: An option has no provider, or the option's provider is not requested.
    """
    options: dict[str, dict[str, str]] = {name: {} for name in resolve_providers(params)}
    if CUDA in options:
        # ONNX Runtime's default from Ampere on is TF32, with only 10 mantissa bits.
        options[CUDA]["use_tf32"] = "0"
        if params.cuda_graph:
            options[CUDA]["enable_cuda_graph"] = "1"
    _, _, index = params.device.partition(":")
    for name in ON_CUDA:
        if index and name in options:
            options[name]["device_id"] = index
    for key, value in params.provider_options.items():
        name, _, option = key.partition(".")
        if name not in options or not option:
            raise ParamsError(
                f"provider option '{key}={value}' is not for a requested provider: "
                f"expected PROVIDER.OPTION=VALUE, where PROVIDER is one of {', '.join(options)}",
                hint="add the provider to --providers, or remove the option",
            )
        options[name][option] = value
    return options


def preload_cuda() -> None:
    """Load CUDA's libraries from NVIDIA's wheels."""
    import onnxruntime

    # The system's loader does not search the folders of wheels. The call prints missing libraries.
    with redirect_stdout(io.StringIO()):
        onnxruntime.preload_dlls()


def find_missing_library(provider: str) -> str:
    """Return the name of a missing shared library that CUDA's provider requires.

    Return an empty string if no library is missing, if ``provider`` is not CUDA's, or if ONNX
    Runtime was built without CUDA.
    """
    import onnxruntime

    if provider != CUDA or CUDA not in available_providers():
        return ""
    preload_cuda()
    file = Path(onnxruntime.__file__).parent / "capi" / "libonnxruntime_providers_cuda.so"
    for library in (file, DRIVER):
        try:
            # This never loads the provider: even with all libraries present, the symbols that
            # ONNX Runtime provides are missing.
            ctypes.CDLL(str(library))
        except OSError as err:
            if "cannot open shared object file" in str(err):
                return str(err).partition(":")[0]
    return ""


def records_assignment(params: OnnxruntimeParams) -> bool:
    """Return True if a session with these parameters records which provider runs each node."""
    # A package's provider takes its nodes before the CPU does, even if it is the second one.
    return set(resolve_providers(params)) != {CPU}


def count_nodes(params: OnnxruntimeParams, session: onnxruntime.InferenceSession) -> Counter[str]:
    """Return how many nodes each provider runs; empty if the session recorded no providers."""
    counts: Counter[str] = Counter()
    if not records_assignment(params) or not hasattr(session, "get_provider_graph_assignment_info"):
        return counts  # the method is new in ONNX Runtime 1.24
    for part in session.get_provider_graph_assignment_info():
        counts[part.ep_name] += len(part.get_nodes())
    return counts


def list_others(params: OnnxruntimeParams, session: onnxruntime.InferenceSession) -> Counter[str]:
    """Return the operators that the session runs elsewhere than on requested packages' providers.

    They are counted by text, such as ``Det on CPUExecutionProvider``.
    """
    packaged = {provider.name for provider in list_packaged(params).values()}
    counts: Counter[str] = Counter()
    if packaged:
        for part in session.get_provider_graph_assignment_info():
            if part.ep_name not in packaged:
                counts.update(f"{node.op_type} on {part.ep_name}" for node in part.get_nodes())
    return counts


def find_working_provider(
    params: OnnxruntimeParams, session: onnxruntime.InferenceSession, counts: Counter[str]
) -> str:
    """Return the first of the session's providers that runs a node.

    ``counts`` is the result of :func:`count_nodes`. If it is empty, return the session's first
    provider, or its last one if the first one is a package's.
    """
    loaded: list[str] = session.get_providers()
    rest = loaded[-1] if list_packaged(params) else loaded[0]
    return next((name for name in loaded if counts[name]), rest)


def describe_fallbacks(
    params: OnnxruntimeParams, session: onnxruntime.InferenceSession, counts: Counter[str]
) -> tuple[str, ...]:
    """Return a sentence for each requested provider or device that is not used."""
    packaged = list_packaged(params)
    loaded = session.get_providers()
    requested = [
        packaged[name].name if name in packaged else name for name in resolve_providers(params)
    ]
    lines = [_describe_unloaded(name) for name in requested if name not in loaded]
    if (counts or packaged) and requested[0] in loaded and not counts[requested[0]]:
        lines.append(f"{requested[0]} was requested but runs no node of this model")
    elif others := list_others(params, session):
        lines.append(describe_others(others, counts.total()))
    given = provider_options(params)
    lines += [
        f"{provider.package} was given the option {option}, whose name is not in its library"
        for name, provider in packaged.items()
        for option in provider.find_unread(given[name])
    ]
    if (
        params.device not in ("cpu", "auto")
        and not packaged
        and not any(name in ON_CUDA for name in requested)
    ):
        lines.append(f"device {params.device} was requested, but no requested provider uses it")
    return tuple(lines)


def describe_others(others: Counter[str], total: int) -> str:
    """Return a sentence about the nodes that a package's provider does not run."""
    listed = ", ".join(f"{count} {text}" for text, count in sorted(others.items()))
    return f"{others.total()} of {total} nodes run elsewhere: {listed}"


def _describe_unloaded(provider: str) -> str:
    missing = find_missing_library(provider)
    return f"{provider} was requested but could not be loaded" + (
        f": no {missing}" if missing else ""
    )


def get_device(
    params: OnnxruntimeParams, provider: str, session: onnxruntime.InferenceSession
) -> str:
    """Return the device that a provider runs on: ``cpu``, ``cuda:0``, or a package's ``npu:0``."""
    for packaged in list_packaged(params).values():
        if packaged.name == provider:
            return packaged.device
    if provider not in ON_CUDA:
        return "cpu"
    index = session.get_provider_options().get(provider, {}).get("device_id", "0")
    return f"cuda:{index}"
