"""Repairs of a graph where ONNX Runtime's kernels on the CPU are inexact.

``Sigmoid`` has an absolute error of 1e-7, which is large for small results, such as a detector's
scores for the background: 0.2 % of the result at x = -10, and a third at x = -15. Below x = -18 the
result is 0. ``STFT`` is off by up to 7e-5 of the largest value, unless the length of a frame is a
power of two: by percents in the faint bands of a spectrum.

The repairs apply to every graph in float32, whoever exported it. The last of the nodes that replace
a node has the name of that node.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from enginebay_onnxruntime.optimizers import has_operators

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import onnx

    from enginebay.authors.arrays import NumpyArray

#: The key of the repairs in the file's metadata, which the receipt reads.
KEY = "enginebay.replaced"

#: The first opset with today's broadcasting.
_FIRST_OPSET = 7

#: The longest frame that is transformed by a matrix of as many numbers as the square of it.
_LONGEST_FRAME = 2048

#: Operators whose results are, at most limited, elements of their inputs.
_MOVES = frozenset(
    {
        *("Clip", "Concat", "DequantizeLinear", "Expand", "Flatten", "Gather", "Identity"),
        *("QuantizeLinear", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"),
    }
)

#: Operators whose results are features, and not scores or masks.
_FEATURES = frozenset(
    {
        *("AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "Elu", "Gemm"),
        *("GlobalAveragePool", "HardSwish", "InstanceNormalization", "LayerNormalization"),
        *("LeakyRelu", "MatMul", "MaxPool", "PRelu", "ReduceMean", "Relu", "Tanh"),
    }
)


def repair_model(path: Path) -> onnx.ModelProto | None:
    """Return a model without the inexact operators; None if it has none.

    The model's external data is not loaded.
    """
    if not any(has_operators(path, name) for name in _REPAIRS):
        return None
    import onnx
    from onnx.inliner import inline_local_functions

    model = onnx.load(path, load_external_data=False)
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    if opset < _FIRST_OPSET:
        return None
    if any(node.op_type in _REPAIRS for each in model.functions for node in each.node):
        model = inline_local_functions(model)  # as ONNX Runtime does
    replaced = Counter(_repair_graph(model.graph, _Values(model)))
    if not replaced:
        return None
    text = ", ".join(f"{name} {count}" for name, count in sorted(replaced.items()))
    onnx.helper.set_model_props(
        model, {each.key: each.value for each in model.metadata_props} | {KEY: text}
    )
    return model


def _repair_graph(graph: onnx.GraphProto, values: _Values) -> Iterator[str]:
    """Replace inexact nodes of a graph and of its subgraphs; yield the operator of each."""
    nodes = []
    for node in graph.node:
        for subgraph in _list_subgraphs(node):
            yield from _repair_graph(subgraph, values)
        build = _REPAIRS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        new = build(node, values) if build else None
        if new:
            yield node.op_type
            for each in new:
                part = each.output[0].removeprefix(node.output[0])
                each.name = f"{node.name}{part}" if node.name else ""
                each.metadata_props.extend(node.metadata_props)  # such as the PyTorch module
        nodes += new or [node]
    del graph.node[:]
    graph.node.extend(nodes)


def _list_subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    return [graph for a in node.attribute for graph in (a.g, *a.graphs) if graph.node]


class _Values:
    """What is known of the values of a model: producers, readers, types and constants.

    The names of values are unique in a model with all its subgraphs.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        import onnx

        self.producers: dict[str, onnx.NodeProto] = {}
        self.readers: dict[str, list[onnx.NodeProto]] = {}
        self.outputs: set[str] = set()
        self._types: dict[str, onnx.TypeProto.Tensor] = {}
        self._tensors: dict[str, onnx.TensorProto] = {}
        with suppress(onnx.shape_inference.InferenceError):  # the model's own types must do then
            model = onnx.shape_inference.infer_shapes(model)
        self._add_graph(model.graph)

    def _add_graph(self, graph: onnx.GraphProto) -> None:
        self.outputs |= {value.name for value in graph.output}
        self._tensors |= {tensor.name: tensor for tensor in graph.initializer}
        for value in (*graph.input, *graph.value_info, *graph.output):
            self._types[value.name] = value.type.tensor_type
        for node in graph.node:
            self.producers |= dict.fromkeys(node.output, node)
            for name in node.input:
                self.readers.setdefault(name, []).append(node)
            for subgraph in _list_subgraphs(node):
                self._add_graph(subgraph)

    def is_float(self, name: str) -> bool:
        """Return True if a value has the dtype float32."""
        return name in self._types and self._types[name].elem_type == 1  # TensorProto.FLOAT

    def read_dims(self, name: str) -> list[int] | None:
        """Return the sizes of a value, 0 for an unknown one; None if not even the rank is known."""
        if name in self._tensors:
            return list(self._tensors[name].dims)
        if name not in self._types or not self._types[name].HasField("shape"):
            return None
        return [dim.dim_value for dim in self._types[name].shape.dim]

    def read_integer(self, name: str) -> int | None:
        """Return a constant scalar; None if the value is no constant."""
        import onnx

        tensor = self._tensors.get(name)
        node = self.producers.get(name)
        if node is not None and node.op_type == "Constant":
            value = onnx.helper.get_attribute_value(node.attribute[0])
            if isinstance(value, int):
                return value
            tensor = value if isinstance(value, onnx.TensorProto) else None
        if tensor is None or tensor.data_location == onnx.TensorProto.EXTERNAL:
            return None
        return int(onnx.numpy_helper.to_array(tensor).reshape(()))

    def is_feature(self, name: str, depth: int = 9) -> bool:
        """Return True if a value is computed from features, such as those of a convolution."""
        node = self.producers.get(name)
        if node is None or not depth:
            return False
        inputs = {"Add": 2, "Div": 1, "Mul": 2, "Sub": 2}.get(node.op_type, 0)
        inputs = 1 if node.op_type in _MOVES else inputs
        return node.op_type in _FEATURES or any(
            self.is_feature(each, depth - 1) for each in node.input[:inputs]
        )


def _split_sigmoid(node: onnx.NodeProto, values: _Values) -> list[onnx.NodeProto]:
    """Return the nodes of 1 / (1 + exp(-x)), which is exact in float32; [] where no digit counts.

    That is if a gate multiplies features, of which its error is 1e-7, or 8 bits follow.
    """
    import numpy as np

    x, y = node.input[0], node.output[0]
    readers = values.readers.get(y, [])
    is_exact_needed = y in values.outputs or not all(
        each.op_type == "QuantizeLinear" or _multiplies_features(each, node, values)
        for each in readers
    )
    if not is_exact_needed or not values.is_float(x):
        return []
    one, negative, power, total = (f"{y}__{part}" for part in ("one", "negative", "power", "sum"))
    return [
        _make_node("Constant", [], one, value=np.float32(1)),
        _make_node("Neg", [x], negative),
        _make_node("Exp", [negative], power),
        _make_node("Add", [one, power], total),
        _make_node("Reciprocal", [total], y),
    ]


def _multiplies_features(node: onnx.NodeProto, sigmoid: onnx.NodeProto, values: _Values) -> bool:
    if node.op_type != "Mul":
        return False
    others = [name for name in node.input if name != sigmoid.output[0]]
    return others == [sigmoid.input[0]] or any(map(values.is_feature, others))


def _split_stft(node: onnx.NodeProto, values: _Values) -> list[onnx.NodeProto]:
    """Return the nodes of the transform as a convolution; [] if its sizes are not known."""
    import numpy as np

    signal, step, window, length = [*node.input, "", ""][:4]
    dims, stride = values.read_dims(signal), values.read_integer(step)
    sizes = (values.read_dims(window) or [0]) if window else [values.read_integer(length)]
    is_real = dims is not None and (len(dims) == 2 or dims[2:] == [1])
    if not (is_real and values.is_float(signal) and stride and len(sizes) == 1 and sizes[0]):
        return []
    size = sizes[0]
    if size & (size - 1) == 0 or size > _LONGEST_FRAME:
        return []
    is_onesided = all(each.i for each in node.attribute if each.name == "onesided")
    kernel = _make_kernel(size, size // 2 + 1 if is_onesided else size)
    y = node.output[0]
    rows, row, weight, windowed, parts, sizes_of_parts, split = (
        f"{y}__{part}" for part in ("rows", "row", "kernel", "windowed", "parts", "sizes", "split")
    )
    return [
        _make_node("Constant", [], rows, value=np.array([0, 1, -1])),
        _make_node("Reshape", [signal, rows], row),
        _make_node("Constant", [], weight, value=kernel),
        _make_node("Mul" if window else "Identity", [weight, *filter(None, [window])], windowed),
        _make_node("Conv", [row, windowed], parts, strides=[stride]),
        _make_node("Constant", [], sizes_of_parts, value=np.array([0, 2, len(kernel) // 2, -1])),
        _make_node("Reshape", [parts, sizes_of_parts], split),
        _make_node("Transpose", [split], y, perm=[0, 3, 2, 1]),
    ]


def _make_kernel(size: int, bins: int) -> NumpyArray:
    """Return the weights of a convolution: real, then imaginary parts of each frequency."""
    import numpy as np

    # Modulo a full turn while the numbers are exact integers.
    angles = np.outer(np.arange(bins), np.arange(size)) % size * (2 * np.pi / size)
    return np.concatenate([np.cos(angles), -np.sin(angles)])[:, None].astype(np.float32)


def _make_node(operator: str, inputs: list[str], output: str, **attributes: Any) -> onnx.NodeProto:
    import onnx

    if "value" in attributes:
        attributes["value"] = onnx.numpy_helper.from_array(attributes["value"])
    return onnx.helper.make_node(operator, inputs, [output], **attributes)


_REPAIRS: dict[str, Callable[[onnx.NodeProto, _Values], list[onnx.NodeProto]]] = {
    "Sigmoid": _split_sigmoid,
    "STFT": _split_stft,
}
