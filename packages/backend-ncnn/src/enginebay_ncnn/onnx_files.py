"""Save ONNX models in a form that pnnx reads as ONNX defines it: one file, no scalar inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.authors.files import read_inlined, summarise_onnx
from enginebay.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from onnx import GraphProto, ModelProto, NodeProto

    from enginebay import IRModel

#: The size limit of one protobuf message.
_MAX_BYTES = 2**31 - 1

#: The newest versions that pnnx 20261020 reads; others end it without a cause.
_NEWEST_IR = 13
_NEWEST_OPSET = 26


def save_onnx_for_pnnx(ir: IRModel, target: Path, scalars: Iterable[str]) -> None:
    """Save an ONNX model as one file, with scalar inputs changed to the shape [1].

    pnnx reads neither external data, nor local functions, nor a shape without dimensions, and gives
    a Softmax below opset 13, which is over all axes from one on, the meaning of opset 13.

    Args:
        ir: The model.
        target: The file to write.
        scalars: The names of the model's scalar inputs.

    Raises:
        ConversionError: The model is too large for one protobuf message, or has an operator that
            pnnx is too old for.
    """
    import onnx

    # Measured by its files: protobuf cannot compute the size of a message that is too large.
    if (size := sum(file.stat().st_size for file in ir.files)) > _MAX_BYTES:
        raise ConversionError(
            f"the ONNX model has {size / 1e9:.1f} GB; pnnx reads at most 2.1 GB, the limit of one "
            "protobuf message"
        )
    model = read_inlined(ir.path) or onnx.load(ir.path, load_external_data=False)
    onnx.load_external_data_for_model(model, str(ir.path.parent))
    _lower_versions(model, ir.path)
    for name in scalars:
        _add_dimension(model.graph, name)
    if (ir.opset or 13) < 13:
        nodes = [new for node in model.graph.node for new in _join_axes(model.graph, node)]
        del model.graph.node[:]
        model.graph.node.extend(nodes)
    onnx.save(model, target)


def _lower_versions(model: ModelProto, path: Path) -> None:
    """Declare versions that pnnx reads, if the operators are the same in them.

    Raises:
        ConversionError: An operator is newer.
    """
    from onnx import defs

    model.ir_version = min(model.ir_version, _NEWEST_IR)
    for entry in model.opset_import:
        if entry.domain not in ("", "ai.onnx") or entry.version <= _NEWEST_OPSET:
            continue
        newer = [
            name
            for name in summarise_onnx(path).operators.get("ai.onnx", ())
            if defs.has(name) and defs.get_schema(name, entry.version).since_version > _NEWEST_OPSET
        ]
        if newer:
            raise ConversionError(
                f"pnnx reads ONNX up to opset {_NEWEST_OPSET}, and '{path.name}' has newer "
                f"operators of opset {entry.version}: {', '.join(newer)}",
                hint=f"export the model with opset {_NEWEST_OPSET}",
            )
        entry.version = _NEWEST_OPSET


def _add_dimension(graph: GraphProto, name: str) -> None:
    from onnx import helper

    scalar = next(value for value in graph.input if value.name == name)
    scalar.type.tensor_type.shape.dim.add().dim_value = 1
    inner = _make_unused_name(graph, f"{name}_scalar")
    for node in graph.node:
        node.input[:] = [inner if source == name else source for source in node.input]
    # Squeeze without axes is the same in every operator set. ncnn has no layer for a Reshape to no
    # dimensions.
    graph.node.insert(0, helper.make_node("Squeeze", [name], [inner]))


def _join_axes(graph: GraphProto, node: NodeProto) -> Iterator[NodeProto]:
    """Yield a node, and for a Softmax nodes that make its axes one axis before, and axes after."""
    import numpy as np
    from onnx import helper, numpy_helper

    axis = next((each.i for each in node.attribute if each.name == "axis"), 1)
    # -1, the usual negative axis, means the same at every opset; others would need the rank.
    if node.op_type not in ("Softmax", "LogSoftmax") or axis < 0:
        yield node
        return
    (x,), (y,) = node.input, node.output
    names = (
        _make_unused_name(graph, f"{y}_{part}") for part in ("sizes", "rows", "found", "shape")
    )
    sizes, rows, found, shape = names
    graph.initializer.append(numpy_helper.from_array(np.array([0] * axis + [-1]), sizes))
    yield helper.make_node("Reshape", [x, sizes], [rows])
    yield helper.make_node(node.op_type, [rows], [found], name=node.name, axis=axis)
    yield helper.make_node("Shape", [x], [shape])
    yield helper.make_node("Reshape", [found, shape], [y])


def _make_unused_name(graph: GraphProto, name: str) -> str:
    taken = {value for node in graph.node for value in (*node.input, *node.output)}
    taken |= {value.name for value in (*graph.input, *graph.output, *graph.initializer)}
    while name in taken:
        name += "_"
    return name
