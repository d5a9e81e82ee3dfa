"""An ONNX graph that can be cut: the nodes of a range, fed with tensors that are known."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import onnx

    from enginebay.authors import NumpyArray


class Graph:
    """The nodes of an ONNX file, in the file's order, which is topological.

    Args:
        path: The file, which is read with its weights.
    """

    def __init__(self, path: Path) -> None:
        import onnx

        self._model = onnx.load(path)
        self.nodes: Sequence[onnx.NodeProto] = list(self._model.graph.node)
        graph = self._model.graph
        self._constants = {each.name: each for each in graph.initializer}
        self._producers = {
            name: index for index, node in enumerate(self.nodes) for name in node.output if name
        }
        self.outputs = [value.name for value in graph.output]

    def producer(self, name: str) -> int | None:
        """The index of the node that gives a tensor; None for an input or a constant."""
        return self._producers.get(name)

    @cached_property
    def _reads(self) -> list[list[str]]:
        return [_reads(node) for node in self.nodes]

    @cached_property
    def _is_constant(self) -> list[bool]:
        """True for each node that depends on no input of the model."""
        found: list[bool] = []
        for reads in self._reads:
            found.append(
                all(
                    name in self._constants
                    or ((index := self._producers.get(name)) is not None and found[index])
                    for name in reads
                )
            )
        return found

    def before(self, index: int, first: int = 0) -> list[int]:
        """The nodes from ``first`` on that a node depends on, and itself; all constant ones too."""
        found: set[int] = set()
        waiting = [index]
        while waiting:
            at = waiting.pop()
            if at in found or (at < first and not self._is_constant[at]):
                continue
            found.add(at)
            waiting += [
                producer
                for name in self._reads[at]
                if (producer := self._producers.get(name)) is not None
            ]
        return sorted(found)

    def measurable(self, output: str, values: Mapping[str, NumpyArray]) -> list[int]:
        """The nodes before an output whose first result is floating-point numbers."""
        last = self._producers.get(output)
        if last is None:
            return []
        return [
            index
            for index in self.before(last)
            if not self._is_constant[index]
            and (value := values.get(self.nodes[index].output[0])) is not None
            and value.dtype.kind == "f"
            and value.size
        ]

    def cut(
        self, nodes: Sequence[int], output: str, values: Mapping[str, NumpyArray], path: Path
    ) -> dict[str, NumpyArray]:
        """Write some nodes as a model of their own.

        Args:
            nodes: Their indices, in order.
            output: The tensor that the model returns.
            values: Every tensor of the graph by name.
            path: The file to write.

        Returns:
            The inputs of the new model, by name.
        """
        import onnx

        made = {name for index in nodes for name in self.nodes[index].output}
        reads = dict.fromkeys(name for index in nodes for name in self._reads[index])
        inputs = {
            name: values[name] for name in reads if name not in made and name not in self._constants
        }
        graph = onnx.helper.make_graph(
            [self.nodes[index] for index in nodes],
            "piece",
            [_value(name, array) for name, array in inputs.items()],
            [_value(output, values[output])],
            [self._constants[name] for name in reads if name in self._constants],
        )
        model = onnx.ModelProto()
        model.CopyFrom(
            onnx.helper.make_model(
                graph,
                opset_imports=self._model.opset_import,
                ir_version=self._model.ir_version,
                functions=self._model.functions,
            )
        )
        onnx.save(model, path)
        return inputs

    def save_transparent(self, path: Path) -> None:
        """Write the model with every tensor among its outputs."""
        import onnx

        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        known = set(self.outputs)
        names = [name for node in self.nodes for name in node.output if name and name not in known]
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        onnx.save(model, path)


def _value(name: str, array: NumpyArray) -> Any:
    import onnx

    element = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, element, array.shape)


def _reads(node: onnx.NodeProto) -> list[str]:
    """The tensors that a node reads from outside, those of its bodies (an If's, a Loop's) too."""
    found = [name for name in node.input if name]
    for attribute in node.attribute:
        for body in (attribute.g, *attribute.graphs):
            found += _body_reads(body)
    return list(dict.fromkeys(found))


def _body_reads(body: onnx.GraphProto) -> Iterable[str]:
    own = {each.name for each in (*body.input, *body.initializer)}
    own |= {name for node in body.node for name in node.output}
    reads = [name for node in body.node for name in _reads(node)]
    reads += [each.name for each in body.output]
    return [name for name in reads if name not in own]
