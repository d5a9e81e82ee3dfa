"""ONNX files of one small model, and of models that have drifted from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from enginebay.authors.arrays import NumpyArray

_RANDOM = np.random.default_rng(0)

#: The weights, in the order of the graph.
WEIGHTS: Mapping[str, NumpyArray] = {
    "first.weight": _RANDOM.normal(size=(8, 6)).astype("float32"),
    "first.bias": np.zeros(6, "float32"),
    "second.weight": _RANDOM.normal(size=(6, 4)).astype("float32"),
    "second.bias": _RANDOM.normal(size=4).astype("float32"),
}


def save_net(
    path: Path,
    weights: Mapping[str, NumpyArray] = WEIGHTS,
    *,
    names: Sequence[str] = tuple(WEIGHTS),
    activation: str = "Tanh",
    dtype: int = TensorProto.FLOAT,
    dims: Sequence[int | str] = (2, 8),
    ends: tuple[str, ...] = ("x", "y"),
    before: Sequence[onnx.NodeProto] = (),
    opset: int = 17,
    external: bool = False,
) -> str:
    """Write two products with biases, and an activation between them; return the path.

    Args:
        path: The file.
        weights: The initializers.
        names: The names of the four weights, which ``weights`` or the nodes ``before`` define.
        activation: The operator of the activation.
        dtype: The type of the input and the output.
        dims: The input's dimensions.
        ends: The names of the input and the outputs; all but the first output are inner tensors.
        before: Nodes before the others.
        opset: The operator set.
        external: True to write the weights to a second file.
    """
    x, y, *inner = ends
    nodes = [
        *before,
        helper.make_node("MatMul", [x, names[0]], ["a"]),
        helper.make_node("Add", ["a", names[1]], ["b"]),
        helper.make_node(activation, ["b"], ["c"]),
        helper.make_node("MatMul", ["c", names[2]], ["d"]),
        helper.make_node("Add", ["d", names[3]], [y]),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(x, dtype, dims)],
        [helper.make_tensor_value_info(name, dtype, None) for name in (y, *inner)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    onnx.save(model, path, save_as_external_data=external, size_threshold=0)
    return str(path)


def save_half(path: Path) -> str:
    """Write the net in float16, with its input and output."""
    weights = {name: array.astype("float16") for name, array in WEIGHTS.items()}
    return save_net(path, weights, dtype=TensorProto.FLOAT16)


def save_quantised(path: Path, drift: float = 1.0) -> str:
    """Write the net with its first weight, multiplied by ``drift``, in 8 bits."""
    weight = WEIGHTS["first.weight"] * np.float32(drift)
    scale = (np.abs(weight).max(0) / 127).astype("float32")  # for each column
    codes = np.round(weight / scale).astype("int8")
    node = helper.make_node("DequantizeLinear", ["codes", "scale"], ["first.weight"], axis=1)
    rest = {name: array for name, array in WEIGHTS.items() if name != "first.weight"}
    # Of older versions of the operator, onnx's evaluator has none.
    return save_net(path, {**rest, "codes": codes, "scale": scale}, before=[node], opset=19)


def change(name: str, by: float) -> dict[str, NumpyArray]:
    """Return the weights, with one element of one of them changed."""
    array = WEIGHTS[name].copy()
    array.reshape(-1)[1] += by
    return {**WEIGHTS, name: array}
