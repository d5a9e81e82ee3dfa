"""Check a network for layers that ncnn does not support, and parameters that pnnx ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.authors import isolation
from enginebay.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from enginebay_ncnn.graph import Graph, Layer
    from enginebay_ncnn.params import NcnnParams

#: The largest number of layers in a message, and of source lines for each layer.
_SHOWN = 4


def check_layers(
    graph: Graph,
    ignored: Mapping[str, str],
    params: NcnnParams,
    source_lines: Mapping[str, list[str]],
) -> None:
    """Raise an error if ncnn does not support a layer of the network or a layer's parameter.

    Args:
        graph: The network.
        ignored: The parameters that pnnx ignored, by layer name.
        params: The backend's parameters, which may declare custom layers.
        source_lines: Lines of the model's source code, by operator name.

    Raises:
        ConversionError: ncnn does not support a layer or a parameter; the message names the layer
            and the source lines of its operator.
    """
    custom = {*params.custom_layers, *params.module_ops}
    types = sorted({layer.type for layer in graph.layers} - custom)
    unknown = set(
        isolation.call(
            "enginebay_ncnn.child_process:find_unknown_layers",
            types,
            timeout=params.pnnx_timeout,
            result_type=list[str],
        )
    )
    wrong = [
        layer
        for layer in graph.layers
        if layer.type in unknown or (layer.name in ignored and layer.type not in custom)
    ]
    if not wrong:
        return
    by_type = {layer.type: layer for layer in wrong}
    described = [_describe(layer, ignored, source_lines) for layer in by_type.values()]
    more = f" and {len(described) - _SHOWN} more kinds" if len(described) > _SHOWN else ""
    raise ConversionError(
        f"ncnn has no layer for {'; '.join(described[:_SHOWN])}{more}",
        hint=f"{suggest_layers(by_type)}, or replace the operator in the model",
    )


def suggest_layers(types: Iterable[str]) -> str:
    """Return the options that declare layers of these types."""
    return " ".join(f"--custom-layers {name}=package.module:Class" for name in types)


def _describe(
    layer: Layer, ignored: Mapping[str, str], source_lines: Mapping[str, list[str]]
) -> str:
    text = f"{layer.type} ('{layer.name}'"
    if layer.name in ignored:
        text += f", {ignored[layer.name]}"
    operator = layer.type.partition(".")[2].replace(".", "_")  # torch.fft.rfft is aten::fft_rfft
    if lines := source_lines.get(operator, []):
        text += f", in {', '.join(lines[:_SHOWN])}{' …' if len(lines) > _SHOWN else ''}"
    return text + ")"
