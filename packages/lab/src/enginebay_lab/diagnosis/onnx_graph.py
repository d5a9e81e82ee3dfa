"""An ONNX graph whose nodes can be saved as separate models."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import onnx

    from enginebay.authors.arrays import NumpyArray


class OnnxGraph:
    """The graph of an ONNX file, with the nodes in topological order.

    A node without a name gets the name of its first output.

    Args:
        path: The ONNX file, which is loaded with its weights.
    """

    def __init__(self, path: Path) -> None:
        import onnx

        self._model = onnx.load(path)
        self.nodes: Sequence[onnx.NodeProto] = list(self._model.graph.node)
        for node in self.nodes:
            node.name = node.name or find_first_output(node)
        graph = self._model.graph
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        # ONNX writes an omitted optional output as an empty name.
        self._producers = {
            name: index for index, node in enumerate(self.nodes) for name in node.output if name
        }
        self.outputs = [value.name for value in graph.output]

    def find_producer(self, name: str) -> int | None:
        """Return the index of the node that computes a tensor; None for inputs and initializers."""
        return self._producers.get(name)

    @cached_property
    def _read_names(self) -> list[list[str]]:
        return [_list_reads(node) for node in self.nodes]

    @cached_property
    def _is_constant(self) -> list[bool]:
        """For each node, True if its results do not depend on the graph's inputs."""
        is_constant: list[bool] = []
        for names in self._read_names:  # in topological order: all producers are known already
            is_constant.append(
                all(
                    name in self._constants
                    or ((index := self._producers.get(name)) is not None and is_constant[index])
                    for name in names
                )
            )
        return is_constant

    def find_dependencies(self, index: int, first: int = 0) -> list[int]:
        """Return the indices of a node and of all nodes on which it depends, in order.

        Args:
            index: The index of the node.
            first: Nodes before this index are left out, except for constant nodes, which do not
                depend on the graph's inputs.
        """
        dependencies: set[int] = set()
        queue = [index]
        while queue:
            node = queue.pop()
            if node in dependencies or (node < first and not self._is_constant[node]):
                continue
            dependencies.add(node)
            queue += [
                producer
                for name in self._read_names[node]
                if (producer := self._producers.get(name)) is not None
            ]
        return sorted(dependencies)

    def find_middle(self, nodes: Sequence[int]) -> int:
        """Return the node that splits some nodes best: half of them are before it.

        Args:
            nodes: The indices of at least two nodes, in order; the last node is never returned.
        """
        selected = sum(1 << index for index in nodes)
        return min(
            nodes[:-1],
            key=lambda index: abs(2 * (self._ancestors[index] & selected).bit_count() - len(nodes)),
        )

    @cached_property
    def _ancestors(self) -> list[int]:
        """For each node, the node and all nodes on which it depends, as bits of a number."""
        ancestors: list[int] = []
        for index, names in enumerate(self._read_names):
            bits = 1 << index
            for name in names:
                if (producer := self._producers.get(name)) is not None:
                    bits |= ancestors[producer]
            ancestors.append(bits)
        return ancestors

    def measurable_nodes(self, output: str, values: Mapping[str, NumpyArray]) -> list[int]:
        """Of the nodes on which an output depends, return the indices of nodes with float results.

        Nodes with an empty result, and nodes that do not depend on the graph's inputs, are left
        out.
        """
        last = self._producers.get(output)
        if last is None:
            return []
        return [
            index
            for index in self.find_dependencies(last)
            if not self._is_constant[index]
            and (value := values.get(find_first_output(self.nodes[index]))) is not None
            and value.dtype.kind == "f"
            and value.size
        ]

    def save_nodes(
        self, nodes: Sequence[int], output: str, values: Mapping[str, NumpyArray], path: Path
    ) -> dict[str, NumpyArray]:
        """Save some nodes as a model; tensors that come from outside these nodes become inputs.

        Args:
            nodes: The indices of the nodes, in order.
            output: The name of the tensor that the model returns.
            values: The value of every tensor of the graph, by name.
            path: The file to write.

        Returns:
            The values of the new model's inputs, by name.
        """
        import onnx

        computed = {name for index in nodes for name in self.nodes[index].output}
        reads = dict.fromkeys(name for index in nodes for name in self._read_names[index])
        inputs = {
            name: values[name]
            for name in reads
            if name not in computed and name not in self._constants
        }
        graph = onnx.helper.make_graph(
            [self.nodes[index] for index in nodes],
            "piece",
            [_build_value_info(name, array) for name, array in inputs.items()],
            [_build_value_info(output, values[output])],
            [self._constants[name] for name in reads if name in self._constants],
        )
        # Without these arguments, make_model would set the newest versions that onnx knows, and the
        # definitions of functions that nodes call would be missing.
        model = onnx.helper.make_model(
            graph,
            opset_imports=self._model.opset_import,
            ir_version=self._model.ir_version,
            functions=self._model.functions,
        )
        onnx.save(model, path)
        return inputs

    def save_with_all_outputs(self, path: Path) -> None:
        """Save the model with every tensor of the graph as an output."""
        import onnx

        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        known = set(self.outputs)  # a graph may list an output only once
        names = [name for node in self.nodes for name in node.output if name and name not in known]
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        onnx.save(model, path)


def find_first_output(node: onnx.NodeProto) -> str:
    """Return the name of a node's first output that is not omitted."""
    names: Iterable[str] = node.output
    return next(name for name in names if name)


def _build_value_info(name: str, array: NumpyArray) -> onnx.ValueInfoProto:
    import onnx

    element = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, element, array.shape)


def _list_reads(node: onnx.NodeProto) -> list[str]:
    """Return the names of the tensors that a node reads, also in the bodies of If and Loop."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        for body in (attribute.g, *attribute.graphs):
            names += _list_body_reads(body)
    return list(dict.fromkeys(names))


def _list_body_reads(body: onnx.GraphProto) -> Iterable[str]:
    # All other names in a body refer to tensors of the graph around it.
    local = {value.name for value in (*body.input, *body.initializer)}
    local |= {name for node in body.node for name in node.output}
    reads = [name for node in body.node for name in _list_reads(node)]
    reads += [value.name for value in body.output]  # a body may return an outer tensor directly
    return [name for name in reads if name not in local]
