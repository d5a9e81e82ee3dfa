"""Compiles a network for a device; the receipt lists the compiled model's actual properties."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import enginebay as eb
from enginebay.errors import ConversionError
from enginebay_openvino.devices import available_devices, is_available, resolve_device
from enginebay_openvino.extensions import add_extensions, locate_extensions
from enginebay_openvino.fused_kernels import (
    SEPARATE_KERNELS,
    count_int8_products,
    find_products,
    may_crash,
    may_overwrite_its_query,
)
from enginebay_openvino.reasons import format_reason

if TYPE_CHECKING:
    from collections.abc import Callable

    import openvino as ov

    from enginebay.hooks import WrapperRequest
    from enginebay_openvino.params import OpenvinoParams

#: OpenVINO's inference precisions by Enginebay's names. With int8, all other layers run in fp32.
_HINTS = {"fp32": "f32", "fp16": "f16", "bf16": "bf16", "int8": "f32"}
_PRECISIONS = {"f32": "fp32", "f16": "fp16", "bf16": "bf16"}

#: The layers that determine the precision of a network, by the names in OpenVINO's plugins.
_ARITHMETIC = ("Convolution", "Deconvolution", "FullyConnected", "MatMul", "Gemm")

#: Otherwise the CPU computes the layers between two fake quantisations in 8 bits.
_FLOAT_LAYERS = {"LP_TRANSFORMS_MODE": "NO"}


def compile_model(request: WrapperRequest[OpenvinoParams]) -> tuple[ov.CompiledModel, eb.Receipt]:
    """Compile an artifact's network for the device; return the compiled model and the receipt.

    Raises:
        ParamsError: OpenVINO has no such device.
        ModelSourceError: An extension in Python cannot be imported.
        ConversionError: OpenVINO cannot read or compile the network, or rejects a property.
    """
    import openvino as ov

    params = request.params
    core = ov.Core()
    available = available_devices(core)
    requested = resolve_device(params.device, available)
    device = requested if is_available(requested, available) else "CPU"
    missing = (
        (f"device {requested} was requested; this machine has {', '.join(available)}",)
        if device != requested
        else ()
    )
    add_extensions(core, locate_extensions(params.extensions, request.directory))
    path = request.directory / request.files[0]
    properties = _make_properties(core, device, params)
    is_set = "SNIPPETS_MODE" in properties
    # Only the CPU plugin has fused kernels and this property, which AUTO ignores.
    is_cpu = device == "CPU" or tuple(available) == ("CPU",)
    try:
        network = core.read_model(path)
        if is_cpu and not is_set and may_crash(network):
            properties |= SEPARATE_KERNELS
            device = "CPU"
        if is_cpu and params.precision == "fp32" and _has_fake_quantisation(network):
            properties = _FLOAT_LAYERS | properties
            device = "CPU"
        compiled = core.compile_model(path, device, properties)
        if not is_set and may_overwrite_its_query(compiled):
            properties |= SEPARATE_KERNELS
            del compiled  # its copy of the weights may be the size of the network
            compiled = core.compile_model(path, "CPU", properties)
    except Exception as err:
        # OpenVINO's message for an operator of neither OpenVINO nor an extension.
        unknown = "unsupported opset" in str(err)
        raise ConversionError(
            f"OpenVINO cannot load '{path.name}': {format_reason(err)}",
            hint="add the operator's class or library to --extensions" if unknown else None,
        ) from err
    layers = _count_arithmetic(compiled, find_products(network))
    return compiled, _make_receipt(core, compiled, params, properties, layers, missing)


def _has_fake_quantisation(network: ov.Model) -> bool:
    """Return True for a network with fake quantisations, unless its weights are in 8 bits."""
    nodes = network.get_ops()
    is_quantised = any(
        node.get_type_name() == "Constant"
        and node.get_element_type().get_type_name() in ("i8", "u8", "i4", "u4")
        and len(node.get_output_shape(0)) > 1
        for node in nodes
    )
    return not is_quantised and any(node.get_type_name() == "FakeQuantize" for node in nodes)


def _make_properties(core: ov.Core, device: str, params: OpenvinoParams) -> dict[str, str]:
    """Convert parameters to OpenVINO's properties; ``params.properties`` override the others."""
    properties = {
        # By default a CPU with bfloat16 instructions computes in bfloat16.
        "INFERENCE_PRECISION_HINT": _HINTS[_supported_precision(core, device, params.precision)],
        "PERFORMANCE_HINT": params.performance_hint.upper(),
    }
    if params.precision == "fp32":
        # Otherwise OpenVINO quantises activations if weights are stored in 8 or 4 bits.
        properties["EXECUTION_MODE_HINT"] = "ACCURACY"
    if params.streams:
        properties["NUM_STREAMS"] = str(params.streams)
    if params.threads:
        properties["INFERENCE_NUM_THREADS"] = str(params.threads)
    if params.cache_dir:
        properties["CACHE_DIR"] = params.cache_dir
    return properties | params.properties


def _supported_precision(core: ov.Core, device: str, precision: str) -> str:
    """Return ``precision``, or fp32 instead of fp16 if the device does not support fp16."""
    # For fp16, OpenVINO itself would use bfloat16 if supported: it has three mantissa bits less.
    if precision == "fp16" and "FP16" not in core.get_property(device, "OPTIMIZATION_CAPABILITIES"):
        return "fp32"
    return precision


def _make_receipt(
    core: ov.Core,
    compiled: ov.CompiledModel,
    params: OpenvinoParams,
    properties: dict[str, str],
    layers: Counter[str],
    missing: tuple[str, ...],
) -> eb.Receipt:
    import openvino as ov

    devices = [device.strip("()") for device in compiled.get_property("EXECUTION_DEVICES")]
    report = _make_reporter(compiled, devices[0])
    precision = _coarsest_precision(report("INFERENCE_PRECISION_HINT"), layers, params)
    reported = {
        "inference_precision": report("INFERENCE_PRECISION_HINT"),
        "weights": "f16" if params.fp16_weights else "",
        "layers": ", ".join(f"{count} {kind}" for kind, count in sorted(layers.items())),
        "performance_hint": report("PERFORMANCE_HINT").lower(),
        "streams": report("NUM_STREAMS"),
        "snippets_mode": properties.get("SNIPPETS_MODE", "").lower(),
        "threads": report("INFERENCE_NUM_THREADS"),
        "loaded_from_cache": report("LOADED_FROM_CACHE").lower() if params.cache_dir else "",
    }
    device_name = str(core.get_property(devices[0], "FULL_DEVICE_NAME"))
    return eb.Receipt(
        engine=f"openvino {ov.__version__.partition('-')[0]}",
        device=devices[0].lower(),
        device_name=device_name,
        provider=", ".join(devices),
        precision=precision,
        fallbacks=(*missing, *_describe_shortfalls(params, precision, reported, device_name)),
        details={name: text for name, text in reported.items() if text},
    )


def _make_reporter(compiled: ov.CompiledModel, device: str) -> Callable[[str], str]:
    """Return a function that returns a property's value as text, by the property's name.

    The value is that of ``device``, even if AUTO selected the device; empty if there is none.
    """
    try:
        of_device = compiled.get_property("DEVICE_PROPERTIES").get(device, {})
    except RuntimeError:  # only virtual devices have this property
        of_device = {}

    def report(name: str) -> str:
        try:
            value = of_device[name] if name in of_device else compiled.get_property(name)
        except RuntimeError:  # not every device has every property
            return ""
        return value.get_type_name() if hasattr(value, "get_type_name") else _format_property(value)

    return report


def _format_property(value: object) -> str:
    # PerformanceMode.LATENCY becomes LATENCY.
    return str(value).rpartition(".")[2]


def _count_arithmetic(compiled: ov.CompiledModel, products: frozenset[str]) -> Counter[str]:
    """Return the number of arithmetic layers by the OpenVINO type in which they compute.

    A fused kernel counts once for each matrix product in it; ``products`` has their names.
    """
    counts: Counter[str] = Counter()
    for node in compiled.get_runtime_model().get_ops():
        info = node.get_rt_info()
        if "layerType" in info and info["layerType"].value in _ARITHMETIC:
            counts[info["runtimePrecision"].value] += 1
        elif count := count_int8_products(node, products):
            counts["i8"] += count
    return counts


def _coarsest_precision(hint: str, layers: dict[str, int], params: OpenvinoParams) -> str:
    if "i8" in layers or "u8" in layers:
        return "int8"
    if params.fp16_weights and hint == "f32":
        return "fp16"
    return _PRECISIONS.get(hint, params.precision)


def _describe_shortfalls(
    params: OpenvinoParams, precision: str, reported: dict[str, str], device: str
) -> list[str]:
    """Return a sentence for each requested property that the compiled model does not have."""
    lines = []
    requested = {"streams": params.streams, "threads": params.threads}
    if params.precision == "int8" and precision != "int8":
        lines.append(
            f"precision int8 was requested, but no layer computes in int8 on {device}; int8 is "
            "less exact and not faster on this device: use fp32, fp16 or bf16"
        )
    hint = _HINTS[params.precision]
    if reported["inference_precision"] not in (hint, ""):
        lines.append(
            f"inference precision {hint} was requested, but "
            f"the compiled model reports {reported['inference_precision']}"
        )
    lines += [
        f"{number} {name} were requested, but the compiled model has {reported[name]}"
        for name, number in requested.items()
        if number and reported[name].isdecimal() and int(reported[name]) < number
    ]
    return lines
