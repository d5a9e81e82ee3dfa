"""ONNX files whose scalar inputs have one dimension: pnnx reads no shape without dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from onnx import GraphProto


def give_dimension(path: Path, scalars: Iterable[str]) -> None:
    """Give scalar inputs the shape [1], and take it away again behind them.

    Args:
        path: The file, which is written again. Its external data stays as it is.
        scalars: The names of the inputs.
    """
    import onnx

    model = onnx.load(path, load_external_data=False)
    for name in scalars:
        _give_dimension(model.graph, name)
    onnx.save(model, path)


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
