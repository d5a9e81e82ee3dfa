"""Load an ``ncnn.Net`` with its options and custom layers."""

from __future__ import annotations

import ctypes
import importlib
import os
from functools import cache, partial
from typing import TYPE_CHECKING

from enginebay.errors import ConversionError, MissingDependencyError, ParamsError
from enginebay_ncnn.graph import Graph
from enginebay_ncnn.layers import suggest_layers
from enginebay_ncnn.params import parse_vulkan_index

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import ncnn

    from enginebay_ncnn.params import NcnnParams


#: ``omp_pause_hard`` of OpenMP 5.0: ends the threads; the next parallel region starts new ones.
_PAUSE_HARD = 2


def load_network(param: Path, weights: Path, params: NcnnParams) -> tuple[ncnn.Net, list[str]]:
    """Load a network.

    Returns:
        The network, and a sentence for each parameter that could not be applied.

    Raises:
        ConversionError: ncnn rejects the files, or the name of a custom layer.
    """
    import ncnn

    _make_forks_safe()
    net = ncnn.Net()
    fallbacks = _configure_options(net, params)
    register_layers(net, params.custom_layers)
    if net.load_param(str(param)):
        kinds = dict.fromkeys(layer.type for layer in Graph.read(param).layers)
        unknown = [
            kind
            for kind in kinds
            if kind not in params.custom_layers and ncnn.layer_to_index(kind) < 0
        ]
        lacking = f": it has no layer {', '.join(unknown)}" if unknown else ""
        raise ConversionError(
            f"ncnn cannot read '{param.name}'{lacking}", hint=suggest_layers(unknown) or None
        )
    if net.load_model(str(weights)):
        raise ConversionError(f"ncnn cannot read the weights '{weights.name}'")
    return net, fallbacks


@cache
def _make_forks_safe() -> None:
    """End ncnn's OpenMP threads before each fork, so that ncnn can run in the child process."""
    import ncnn.ncnn

    if not hasattr(os, "register_at_fork"):
        return
    # libgomp reuses its threads in the next call. A forked child does not have these threads, but
    # would wait for them.
    # ncnn's package includes a libgomp. If torch was imported first, ncnn uses torch's instead.
    for library in (None, ncnn.ncnn.__file__):
        end_threads = getattr(ctypes.CDLL(library), "omp_pause_resource_all", None)
        if end_threads is not None:
            os.register_at_fork(before=partial(end_threads, _PAUSE_HARD))


def register_layers(net: ncnn.Net, declared: Mapping[str, str]) -> None:
    """Import the classes of custom layers, and register them in a network.

    Raises:
        ParamsError: A declaration is not ``package.module:Class``, or the class is not a layer.
        MissingDependencyError: The package cannot be imported.
        ConversionError: ncnn rejects the name of a layer.
    """
    for name, path in declared.items():
        _register_layer(net, name, _find_class(name, path))


def _find_class(name: str, path: str) -> type[ncnn.Layer]:
    import ncnn

    module, colon, attribute = path.partition(":")
    if not (module and colon and attribute):
        raise ParamsError(f"wrong custom layer {name}='{path}': expected package.module:Class")
    try:
        layer = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as err:
        raise MissingDependencyError(
            f"custom layer {name}='{path}' cannot be imported: {err}",
            hint=f"add the package of '{module}' to the Python path",
        ) from err
    if not (isinstance(layer, type) and issubclass(layer, ncnn.Layer)):
        raise ParamsError(f"custom layer {name}='{path}' is not a class derived from ncnn.Layer")
    return layer


def _register_layer(net: ncnn.Net, name: str, layer: type[ncnn.Layer]) -> None:
    references = []  # ncnn itself holds no reference to the layers that it creates

    def create() -> ncnn.Layer:
        references.append(layer())
        return references[-1]

    try:
        # ncnn calls both functions in this thread, which holds the GIL.
        failed = net.register_custom_layer(name, create, _destroy_layer)
    except RuntimeError as err:  # ncnn has ten slots for each process, and never frees one
        raise ConversionError(
            f"ncnn cannot register the custom layer '{name}': {err}",
            hint="load the artifact in a separate process",
        ) from err
    if failed:
        raise ConversionError(
            f"ncnn cannot register the custom layer '{name}': ncnn already has a layer of this "
            "name",
            hint="give the layer another name",
        )


def _destroy_layer(_layer: ncnn.Layer) -> None:
    """Do nothing: Python frees the layer."""


def _configure_options(net: ncnn.Net, params: NcnnParams) -> list[str]:
    import ncnn

    option = net.opt
    half = params.precision == "fp16"
    # ncnn's default is to store float16 if the processor has instructions for it.
    option.use_fp16_packed = option.use_fp16_storage = half
    option.use_fp16_arithmetic = half and params.fp16_arithmetic
    option.use_bf16_storage = option.use_bf16_packed = False
    option.lightmode = params.light_mode
    option.use_packing_layout = params.packing
    # The sums of ncnn's Winograd algorithm overflow in int8, unless the weights have only 6 bits.
    option.use_winograd_convolution = params.winograd and params.precision != "int8"
    option.num_threads = params.threads or ncnn.get_physical_big_cpu_count()
    index = parse_vulkan_index(params.device)
    if index is None:
        return []
    if index >= ncnn.get_gpu_count():
        return [f"{params.device} was requested but not found: the network runs on the cpu"]
    option.use_vulkan_compute = True
    net.set_vulkan_device(index)
    return []
