"""Conversion of an ONNX model to a newer opset, without a change of meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import ConversionError
from enginebay.ir.local_functions import inline_functions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import onnx

#: The opset that gave Resize its modes; until then it counted from the corner, and rounded down.
_RESIZE = 11
#: The opset from which Hardmax is along one axis; until then it was over all axes from one on.
_HARDMAX = 13


def raise_opset(
    model: onnx.ModelProto, opset: int, *, folder: Path, precision: str
) -> onnx.ModelProto:
    """Return a model at an opset; unchanged if the model's is newer.

    Args:
        model: The model, which may be changed.
        opset: The least opset.
        folder: The folder of the model's external data, which is loaded for a conversion.
        precision: The precision that requires the opset, for the message: ``bf16``.

    Returns:
        The model. If it was converted, it has no local functions.

    Raises:
        ConversionError: onnx cannot convert the model.
    """
    from onnx import version_converter
    from onnx.external_data_helper import load_external_data_for_model

    known = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    if known >= opset:
        return model
    load_external_data_for_model(model, str(folder))
    model = inline_functions(model)  # the converter drops both
    if known < _HARDMAX:
        for graph in _list_graphs(model.graph):
            _flatten_hardmax(graph)
    resized = set()
    if known < _RESIZE:
        nodes = [node for graph in _list_graphs(model.graph) for node in graph.node]
        resized = {node.output[0] for node in nodes if node.op_type in ("Resize", "Upsample")}
    try:
        model = version_converter.convert_version(model, opset)
    except Exception as err:
        raise ConversionError(
            f"{precision} requires opset {opset}, and the model cannot be converted from opset "
            f"{known}: {str(err).splitlines()[0]}",
            hint=f"export the model with opset {opset}, or use another precision",
        ) from err
    for graph in _list_graphs(model.graph):
        for node in graph.node:
            if resized.intersection(node.output):
                _keep_old_modes(node)
    return model


def _list_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and all graphs in it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for each in (attribute.g, *attribute.graphs):
                if each.node:
                    yield from _list_graphs(each)


def _flatten_hardmax(graph: onnx.GraphProto) -> None:
    # onnx's converter leaves the axis alone, which then means another thing.
    from onnx.helper import make_node

    nodes = []
    for node in graph.node:
        if node.op_type != "Hardmax":
            nodes.append(node)
            continue
        x, y = node.input[0], node.output[0]
        axis = next((each.i for each in node.attribute if each.name == "axis"), 1)
        nodes += [
            make_node("Shape", [x], [f"{y}__shape"]),
            make_node("Flatten", [x], [f"{y}__rows"], axis=axis),
            make_node("Hardmax", [f"{y}__rows"], [f"{y}__flat"], node.name, axis=1),
            make_node("Reshape", [f"{y}__flat", f"{y}__shape"], [y]),
        ]
    del graph.node[:]
    graph.node.extend(nodes)


def _keep_old_modes(node: onnx.NodeProto) -> None:
    # onnx's converter leaves the modes out, whose defaults mean another thing.
    from onnx.helper import make_attribute

    node.attribute.append(make_attribute("coordinate_transformation_mode", "asymmetric"))
    node.attribute.append(make_attribute("nearest_mode", "floor"))
