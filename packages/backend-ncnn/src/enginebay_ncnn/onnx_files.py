"""ONNX files as pnnx reads them: in one piece, and without scalar inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from onnx import GraphProto

    from enginebay import IRModel

#: The size limit of one protobuf message.
_MAX_BYTES = 2**31 - 1


def save_for_pnnx(ir: IRModel, target: Path, scalars: Iterable[str]) -> None:
    """Save an ONNX file with its weights inside, since pnnx does not find those beside it.

    Scalar inputs get the shape [1], which is taken away again behind them: pnnx reads no shape
    without dimensions.

    Args:
        ir: The model.
        target: Where to save it.
        scalars: The names of its scalar inputs.

    Raises:
        ConversionError: It would be larger than a protobuf message can be.
    """
    import onnx

    # By its files: protobuf cannot tell the size of a message that is too large.
    if (size := sum(file.stat().st_size for file in ir.files)) > _MAX_BYTES:
        raise ConversionError(
            f"the ONNX model has {size / 1e9:.1f} GB, and pnnx reads one file of at most 2.1 GB"
        )
    model = onnx.load(ir.path)
    for name in scalars:
        _give_dimension(model.graph, name)
    onnx.save(model, target)


def _give_dimension(graph: GraphProto, name: str) -> None:
    from onnx import helper

    scalar = next(value for value in graph.input if value.name == name)
    scalar.type.tensor_type.shape.dim.add().dim_value = 1
    inner = _unused(graph, f"{name}_scalar")
    for node in graph.node:
        node.input[:] = [inner if each == name else each for each in node.input]
    # Squeeze without axes is the same in every operator set. A Reshape to no dimensions is no layer
    # of ncnn's.
    graph.node.insert(0, helper.make_node("Squeeze", [name], [inner]))


def _unused(graph: GraphProto, name: str) -> str:
    taken = {each for node in graph.node for each in (*node.input, *node.output)}
    taken |= {value.name for value in (*graph.input, *graph.output, *graph.initializer)}
    while name in taken:
        name += "_"
    return name
