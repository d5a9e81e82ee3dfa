"""ONNX graphs for tests, and an engine of them with faults planted in some nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from enginebay.authors.arrays import compare_outputs
from enginebay_lab.diagnosis.onnx_graph import OnnxGraph

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from enginebay.authors.arrays import NumpyArray, OutputComparison

SHAPE = (2, 3)
#: The input of every graph.
X = np.float32([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


def node(operator: str, reads: str, writes: str, name: str | None = None, **more: Any) -> Any:
    """Return a node of the tensors in ``reads`` and ``writes``; '-' is an omitted tensor."""
    sides = [["" if word == "-" else word for word in text.split()] for text in (reads, writes)]
    name = f"n_{sides[1][0]}" if name is None else name
    return helper.make_node(operator, *sides, name=name, **more)


def save_graph(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    outputs: Sequence[str] = ("y",),
    constants: Mapping[str, NumpyArray] = {},
    **more: Any,
) -> OnnxGraph:
    """Write a graph of the input ``x`` whose outputs are float32 of any shape, and read it."""
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)]
    graph = helper.make_graph(nodes, "graph", inputs, values, tensors)
    imports = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, **{"opset_imports": imports, "ir_version": 8, **more}), path)
    return OnnxGraph(path)


def evaluate(path: Path, feed: Mapping[str, NumpyArray]) -> dict[str, NumpyArray]:
    """Return the outputs of a file in onnx's evaluator, by name."""
    evaluator = ReferenceEvaluator(str(path))
    return dict(zip(evaluator.output_names, evaluator.run(None, dict(feed)), strict=True))


def all_values(graph: OnnxGraph, folder: Path) -> dict[str, NumpyArray]:
    """Return the value of every tensor that a graph computes from ``X``, and ``X``."""
    graph.save_with_all_outputs(folder / "all.onnx")
    return {"x": X, **evaluate(folder / "all.onnx", {"x": X})}


class PlantedNodes:
    """Runs ONNX files in onnx's evaluator, and adds 1 to the results of some nodes.

    Args:
        wrong: The names of the nodes. They are wrong only if all of them are in the file.
        refused: The names of nodes that the engine does not build.
        output: The index of the output that is wrong.

    Attributes:
        ran: The names of the nodes of each file, in order.
    """

    def __init__(self, wrong: Sequence[str], refused: Sequence[str] = (), output: int = 0) -> None:
        self.wrong, self.refused, self.output = list(wrong), set(refused), output
        self.ran: list[list[str]] = []

    def __call__(
        self, path: Path, inputs: Mapping[str, NumpyArray], expected: Mapping[str, NumpyArray]
    ) -> OutputComparison:
        from enginebay.errors import ConversionError

        model = onnx.load(path)
        onnx.checker.check_model(model)
        names = [node.name for node in model.graph.node]
        self.ran.append(names)
        if self.refused & set(names):
            raise ConversionError("this engine does not build that")
        if self.wrong and set(self.wrong) <= set(names):
            self._break(model)
            onnx.save(model, path)
        (compared,) = compare_outputs(expected, evaluate(path, inputs))
        return compared

    def _break(self, model: onnx.ModelProto) -> None:
        nodes = list(model.graph.node)
        place = max(index for index, node in enumerate(nodes) if node.name in self.wrong)
        last = nodes[place]
        result = last.output[self.output]
        last.output[self.output] = f"{result} before"
        one = onnx.numpy_helper.from_array(np.float32(1), "one")
        model.graph.initializer.append(one)
        nodes.insert(place + 1, helper.make_node("Add", [f"{result} before", "one"], [result]))
        del model.graph.node[:]
        model.graph.node.extend(nodes)
