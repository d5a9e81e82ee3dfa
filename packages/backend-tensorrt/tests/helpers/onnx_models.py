"""Small models as ONNX files, and their outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import enginebay as eb

if TYPE_CHECKING:
    from pathlib import Path

OPSET = [helper.make_opsetid("", 17)]
RNG = np.random.default_rng(0)
W = RNG.standard_normal((3, 4)).astype(np.float32)


def linear(path: Path, rows: int | str = 2, scale: float = 1) -> Path:
    """y = relu(x W · scale), s = the sum of y's last axis."""
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["p"], name="product"),
            helper.make_node("Relu", ["p"], ["y"], name="relu"),
            helper.make_node("ReduceSum", ["y", "axes"], ["s"], name="sum", keepdims=0),
        ],
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 3])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 4]),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, [rows]),
        ],
        [
            numpy_helper.from_array(np.float32(scale) * W, "w"),
            numpy_helper.from_array(np.array([-1]), "axes"),
        ],
    )
    onnx.save(helper.make_model(graph, opset_imports=OPSET, ir_version=8), path)
    return path


def expected(x: Any, scale: float = 1) -> dict[str, Any]:
    y = np.maximum(x @ (np.float32(scale) * W), 0)
    return {"y": y, "s": y.sum(-1)}


def rows(number: int) -> np.ndarray:
    return RNG.standard_normal((number, 3)).astype(np.float32)


def dynamic(**more: Any) -> dict[str, Any]:
    return {"min_shapes": "x:1x3", "input_shapes": "x:4x3", "max_shapes": "x:8x3", **more}


def agree(found: dict[str, Any], wanted: dict[str, np.ndarray], tolerance: float = 1e-5) -> None:
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_allclose(found[name], array, rtol=tolerance, atol=tolerance)


def built(source: Path, params: dict[str, Any] | None = None) -> eb.Artifact:
    """Convert the model to an artifact next to it."""
    return eb.convert(
        source, backend="tensorrt-rtx", work_dir=source.with_name("a"), params=params or {}
    )


def nonzero(path: Path) -> Path:
    """Write a model of the places of nonzero values, and of the input doubled.

    Next to it is a graph with the same ports and fixed shapes, for a parser that has no NonZero.
    """
    twice = helper.make_node("Add", ["x", "x"], ["twice"], name="add")
    places = [
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.INT64),
        helper.make_node("Unsqueeze", ["wide", "axes"], ["places"]),
    ]
    axes = numpy_helper.from_array(np.array([0]), "axes")
    for target, nodes, size in (
        (path, [helper.make_node("NonZero", ["x"], ["places"], name="nonzero")], "n"),
        (path.with_suffix(".twin"), places, 6),
    ):
        graph = helper.make_graph(
            [*nodes, twice],
            "nonzero",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [6])],
            [
                helper.make_tensor_value_info("places", TensorProto.INT64, [1, size]),
                helper.make_tensor_value_info("twice", TensorProto.FLOAT, [6]),
            ],
            [axes] if nodes is places else [],
        )
        model = helper.make_model(graph, opset_imports=OPSET, ir_version=8)
        target.write_bytes(model.SerializeToString())
    return path


def reshaped(path: Path, dtype: str) -> Path:
    """y = x of 2×3 as 3×2, in any dtype; bytes are only cast, as TensorRT requires."""
    from enginebay.authors.arrays import numpy_dtype

    kind = helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype))
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["y"], name="reshape")]
    if dtype == "uint8":
        nodes = [
            helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.INT32),
            helper.make_node("Reshape", ["wide", "shape"], ["turned"], name="reshape"),
            helper.make_node("Cast", ["turned"], ["y"], to=TensorProto.UINT8),
        ]
    graph = helper.make_graph(
        nodes,
        "reshaped",
        [helper.make_tensor_value_info("x", kind, [2, 3])],
        [helper.make_tensor_value_info("y", kind, [3, 2])],
        [numpy_helper.from_array(np.array([3, 2]), "shape")],
    )
    onnx.save(helper.make_model(graph, opset_imports=OPSET, ir_version=8), path)
    return path


def slow(path: Path, rows: int | str = 1) -> Path:
    """A model whose build takes half a second, and again for each profile: forty convolutions."""
    nodes, weights, name = [], [], "x"
    for number in range(40):
        kernel = RNG.standard_normal((64 + number % 8, 64 + (number - 1) % 8, 3, 3))
        kernel = kernel if number else kernel[:, :64]
        weights.append(numpy_helper.from_array(kernel.astype(np.float32), f"w{number}"))
        nodes.append(
            helper.make_node("Conv", [name, f"w{number}"], [f"c{number}"], pads=[1, 1, 1, 1])
        )
        nodes.append(helper.make_node("Sigmoid", [f"c{number}"], [f"y{number}"]))
        name = f"y{number}"
    graph = helper.make_graph(
        nodes,
        "slow",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 64, 32, 32])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=OPSET, ir_version=8), path)
    return path
