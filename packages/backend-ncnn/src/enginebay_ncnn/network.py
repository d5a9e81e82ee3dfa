"""Loading of an ``ncnn.Net``, with its options and custom layers."""

from __future__ import annotations

import ctypes
import importlib
import os
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from enginebay.errors import ConversionError, MissingDependencyError, ParamsError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import ncnn

    from enginebay_ncnn.params import NcnnParams


#: OpenMP 5.0, omp_pause_resource_t: the threads end, and the next parallel region starts new ones.
_PAUSE_HARD = 2


def vulkan_index(device: str) -> int | None:
    """Return the number of a Vulkan device; None for the processor.

    Raises:
        ParamsError: The device is neither ``cpu`` nor ``vulkan`` nor ``vulkan:N``.
    """
    kind, _, number = device.partition(":")
    if device == "cpu":
        return None
    if kind != "vulkan" or not (number or "0").isdecimal() or device.endswith(":"):
        raise ParamsError(
            f"device '{device}' is not one of ncnn's: wanted cpu, vulkan or vulkan:N",
            hint="--device cpu",
        )
    return int(number or 0)


def load(param: Path, weights: Path, params: NcnnParams) -> tuple[ncnn.Net, list[str]]:
    """Load a network.

    Returns:
        The network, and a sentence for each request that it does not fulfil.

    Raises:
        ConversionError: ncnn refuses the files, or the name of a custom layer.
    """
    import ncnn

    _make_forks_safe()
    net = ncnn.Net()
    fallbacks = _configure(net, params)
    register_layers(net, params.custom_layers)
    if net.load_param(str(param)):
        raise ConversionError(f"ncnn cannot read '{param.name}': it has a layer ncnn does not know")
    if net.load_model(str(weights)):
        raise ConversionError(f"ncnn cannot read the weights '{weights.name}'")
    return net, fallbacks


@cache
def _make_forks_safe() -> None:
    """End this thread's OpenMP threads before each fork, so that ncnn runs in the child.

    libgomp keeps them between calls, and a child, which has none of them, would wait for them.
    """
    import ncnn.ncnn

    if not hasattr(os, "register_at_fork"):
        return
    # ncnn's package has a libgomp of its own. Where torch was imported first, torch's is used.
    for library in (None, ncnn.ncnn.__file__):
        end_threads = getattr(ctypes.CDLL(library), "omp_pause_resource_all", None)
        if end_threads is not None:
            os.register_at_fork(before=partial(end_threads, _PAUSE_HARD))


def register_layers(net: ncnn.Net, declared: Mapping[str, str]) -> None:
    """Import the classes of custom layers, by the names of their types, and register them.

    Raises:
        ParamsError: A declaration is not ``package.module:Class``, or it is no layer.
        MissingDependencyError: The package cannot be imported.
        ConversionError: ncnn refuses the name of a layer.
    """
    for name, path in declared.items():
        _register(net, name, _find_class(name, path))


def _find_class(name: str, path: str) -> Any:
    import ncnn

    module, colon, attribute = path.partition(":")
    if not (module and colon and attribute):
        raise ParamsError(f"custom layer {name}='{path}' is not package.module:Class")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as err:
        raise MissingDependencyError(
            f"custom layer {name}='{path}' cannot be imported: {err}",
            hint=f"put the package of '{module}' on the Python path",
        ) from err
    if not (isinstance(found, type) and issubclass(found, ncnn.Layer)):
        raise ParamsError(f"custom layer {name}='{path}' is not a class derived from ncnn.Layer")
    return found


def _register(net: ncnn.Net, name: str, layer: Any) -> None:
    kept = []  # ncnn holds no reference to the layers that it gets

    def create() -> Any:
        kept.append(layer())
        return kept[-1]

    try:
        # ncnn calls both functions in this thread, which holds the interpreter's lock.
        failed = net.register_custom_layer(name, create, _destroy)
    except RuntimeError as err:  # ncnn's binding has ten slots in a process, and frees none
        raise ConversionError(
            f"ncnn cannot register the custom layer '{name}': {err}",
            hint="load the artifact in a process of its own",
        ) from err
    if failed:
        raise ConversionError(
            f"ncnn cannot register the custom layer '{name}': it has one of that name",
            hint="give the layer another name",
        )


def _destroy(_layer: Any) -> None:
    """Do nothing: Python frees its objects itself."""


def _configure(net: ncnn.Net, params: NcnnParams) -> list[str]:
    import ncnn

    option = net.opt
    half = params.precision == "fp16"
    # By default ncnn stores float16 wherever the processor has instructions for it.
    option.use_fp16_packed = option.use_fp16_storage = half
    option.use_fp16_arithmetic = half and params.fp16_arithmetic
    option.use_bf16_storage = option.use_bf16_packed = False
    option.lightmode = params.light_mode
    option.use_packing_layout = params.packing
    # In 8 bits its sums overflow, but for weights of 6 bits.
    option.use_winograd_convolution = params.winograd and params.precision != "int8"
    option.num_threads = params.threads or ncnn.get_physical_big_cpu_count()
    index = vulkan_index(params.device)
    if index is None:
        return []
    if index >= ncnn.get_gpu_count():
        return [f"{params.device} was requested and is not there: the network runs on the cpu"]
    option.use_vulkan_compute = True
    net.set_vulkan_device(index)
    return []
