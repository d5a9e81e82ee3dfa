"""fp16 and bf16 graphs: the same from outside, valid, and close to the original when they run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from enginebay.errors import ConversionError
from enginebay_tensorrt.half import KEPT, to_half

FLOAT, HALF = TensorProto.FLOAT, TensorProto.FLOAT16


def model(nodes: list[Any], inputs: Any, outputs: Any, weights: Any = (), opset: int = 17) -> Any:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(*each) for each in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("mine", 1)]
    return onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=opsets, ir_version=8)
    )


def run(proto: Any, **feed: Any) -> list[Any]:
    onnx.checker.check_model(proto, full_check=True)
    return ort.InferenceSession(proto.SerializeToString()).run(None, feed)


def node(op: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    return helper.make_node(op, inputs, outputs, name=f"{op}_{outputs[0]}", **attributes)


def operators(proto: Any) -> Counter[str]:
    return Counter(each.op_type for each in proto.graph.node)


def two_layers() -> Any:
    rng = np.random.default_rng(0)
    weights = [(name, rng.standard_normal((4, 4)).astype(np.float32)) for name in ("a", "b")]
    return model(
        [
            node("MatMul", ["x", "a"], ["p"]),
            node("Relu", ["p"], ["q"]),
            node("MatMul", ["q", "b"], ["y"]),
        ],
        [("x", FLOAT, [2, 4])],
        [("y", FLOAT, [2, 4])],
        weights,
    )


def test_casts_stand_at_the_border_only() -> None:
    original = two_layers()
    before = original.SerializeToString()
    half = to_half(original, "fp16")
    assert original.SerializeToString() == before
    assert [each.op_type for each in half.graph.node] == [
        "Cast",
        "MatMul",
        "Relu",
        "MatMul",
        "Cast",
    ]
    assert {each.data_type for each in half.graph.initializer} == {HALF}
    assert [v.name for v in (*half.graph.input, *half.graph.output)] == ["x", "y"]
    x = np.random.default_rng(1).standard_normal((2, 4)).astype(np.float32)
    (wanted,), (found,) = run(original, x=x), run(half, x=x)
    assert found.dtype == np.float32
    assert 0 < np.abs(found - wanted).max() < 2e-2


def test_bf16_is_raised_to_an_opset_that_knows_it() -> None:
    from onnx.reference import ReferenceEvaluator

    original = two_layers()
    half = to_half(original, "bf16")
    onnx.checker.check_model(half, full_check=True)
    assert half.opset_import[0].version == 22
    assert {each.data_type for each in half.graph.initializer} == {TensorProto.BFLOAT16}
    x = np.random.default_rng(1).standard_normal((2, 4)).astype(np.float32)
    (found,) = ReferenceEvaluator(half).run(None, {"x": x})  # ONNX Runtime's CPU has no bf16
    np.testing.assert_allclose(found, run(original, x=x)[0], rtol=5e-2, atol=5e-2)


def test_a_model_that_cannot_be_raised() -> None:
    unknown = two_layers()
    unknown.graph.node.append(node("Mystery", ["x"], ["z"]))
    with pytest.raises(ConversionError) as caught:
        to_half(unknown, "bf16")
    assert str(caught.value).startswith(
        "bf16 needs opset 22, and the model cannot be raised from 17: "
    )
    assert caught.value.hint == "export it with opset 22, or use fp16"


def test_what_overflows_stays_in_fp32() -> None:
    x = np.full((2, 4), 300, np.float32)  # 300² is beyond fp16
    original = model(
        [
            node("Add", ["x", "x"], ["d"]),
            node("Pow", ["d", "two"], ["p"]),
            node("ReduceMean", ["p"], ["m"], axes=[-1], keepdims=1),
            node("Sqrt", ["m"], ["r"]),
            node("Div", ["d", "r"], ["y"]),
        ],
        [("x", FLOAT, [2, 4])],
        [("y", FLOAT, [2, 4])],
        [("two", np.array(2, np.float32))],
    )
    half = to_half(original, "fp16")
    np.testing.assert_allclose(run(half, x=x)[0], np.ones((2, 4)), rtol=1e-3)
    kept = [each for each in half.graph.node if each.op_type in KEPT]
    assert [each.op_type for each in kept] == ["Pow", "ReduceMean"]
    assert kept[0].input[0] == "d"  # its fp32 name


def test_weights_beyond_fp16_stay_finite_and_epsilons_stay_above_zero() -> None:
    given = np.array([-3.4e38, 3.4e38, -np.inf, 1e-12, -1e-30, 0, 1.5], np.float32)
    original = model(
        [node("Add", ["x", "w"], ["y"])],
        [("x", FLOAT, [7])],
        [("y", FLOAT, [7])],
        [("w", given)],
    )
    (weight,) = to_half(original, "fp16").graph.initializer
    wanted = np.array([-65504, 65504, -np.inf, 2**-24, -(2**-24), 0, 1.5], np.float16)
    np.testing.assert_array_equal(numpy_helper.to_array(weight), wanted)
    (weight,) = to_half(original, "bf16").graph.initializer
    found = numpy_helper.to_array(weight)
    np.testing.assert_array_equal(found, given.astype(ml_dtypes.bfloat16))


def test_constants_are_converted_like_weights() -> None:
    original = model(
        [
            helper.make_node(
                "Constant", [], ["mask"], value=helper.make_tensor("", FLOAT, [1], [-1e38])
            ),
            node("Add", ["x", "mask"], ["s"]),
            node("Softmax", ["s"], ["y"], axis=-1),
        ],
        [("x", FLOAT, [2, 3])],
        [("y", FLOAT, [2, 3])],
    )
    half = to_half(original, "fp16")
    assert operators(half) == {"Cast": 2, "Add": 1, "Softmax": 1}
    # A whole row under the mask is uniform, where -inf would make it NaN.
    np.testing.assert_allclose(run(half, x=np.zeros((2, 3), np.float32))[0], 1 / 3, rtol=1e-3)


def test_subgraphs_read_what_they_read_before() -> None:
    branch = {
        name: helper.make_graph(
            [helper.make_node(op, ["d", "w"], [f"{name}_out"])],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}_out", FLOAT, [3])],
        )
        for name, op in (("yes", "Add"), ("no", "Sub"))
    }
    original = model(
        [
            node("Mul", ["x", "w"], ["d"]),
            helper.make_node(
                "If", ["c"], ["y"], then_branch=branch["yes"], else_branch=branch["no"]
            ),
            node("Neg", ["d"], ["z"]),
        ],
        [("x", FLOAT, [3]), ("c", TensorProto.BOOL, [])],
        [("y", FLOAT, [3]), ("z", FLOAT, [3])],
        [("w", np.array([1, 2, 3], np.float32))],
    )
    half = to_half(original, "fp16")
    x = np.array([0.5, 1, 2], np.float32)
    for choice in (True, False):
        feed = {"x": x, "c": np.array(choice)}
        for found, wanted in zip(run(half, **feed), run(original, **feed), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-3)
    assert {each.data_type for each in half.graph.initializer} == {FLOAT, HALF}  # both are read


def test_what_an_operator_takes_in_fp32_only_stays() -> None:
    original = model(
        [
            node("Resize", ["x", "", "scales"], ["y"], mode="nearest"),
            node("TopK", ["x", "k"], ["v", "i"], axis=-1),
            node("Cast", ["i"], ["f"], to=FLOAT),
            helper.make_node("Mystery", ["x"], ["m"], domain="mine"),
        ],
        [("x", FLOAT, [1, 1, 2, 2])],
        [("y", FLOAT, None), ("v", FLOAT, None), ("f", FLOAT, None), ("m", FLOAT, None)],
        [("scales", np.array([1, 1, 2, 2], np.float32)), ("k", np.array([1]))],
    )
    half = to_half(original, "fp16")
    by_name = {each.op_type: each for each in half.graph.node}
    assert list(by_name["Resize"].input) == ["x__fp16", "", "scales"]
    assert list(by_name["TopK"].output) == ["v__fp16", "i"]
    assert by_name["Mystery"].input[0] == "x"


def test_int64_and_bool_models_are_left_alone() -> None:
    original = model(
        [node("Add", ["k", "k"], ["y"])],
        [("k", TensorProto.INT64, [2])],
        [("y", TensorProto.INT64, [2])],
    )
    assert to_half(original, "fp16").graph == original.graph


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_exported_networks(tmp_path: Any, precision: Any, exporter: Any) -> None:
    import torch
    from onnx.reference import ReferenceEvaluator
    from torch import nn

    import enginebay as eb

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3, padding=1)
            self.norm = nn.BatchNorm2d(8)
            self.linear = nn.Linear(8, 16)
            self.layer_norm = nn.LayerNorm(16)
            self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

        def forward(self, x: torch.Tensor, k: torch.Tensor) -> Any:
            y = nn.functional.interpolate(self.norm(self.conv(x)).relu(), scale_factor=2.0)
            y = self.layer_norm(self.linear(y.flatten(2).transpose(1, 2)))
            y, _ = self.attention(y, y, y)
            return y.softmax(-1), (y * k).sum(-1), y.pow(2).mean(-1), y.argmax(-1) * 0 + k

    torch.manual_seed(0)
    args = (torch.randn(2, 3, 8, 8), torch.tensor(2))
    path = tmp_path / "m.onnx"
    eb.export(Net().eval(), args, path=path, exporter=exporter)
    original = onnx.shape_inference.infer_shapes(onnx.load(path))
    feed = {"x": args[0].numpy(), "k": args[1].numpy()}
    wanted = ort.InferenceSession(str(path)).run(None, feed)
    half = to_half(original, precision)
    onnx.checker.check_model(half, full_check=True)
    low = {"fp16": HALF, "bf16": TensorProto.BFLOAT16}[precision]
    kinds = Counter(each.data_type for each in half.graph.initializer)
    assert kinds[low] == 10  # each weight but those of what stays
    assert kinds[FLOAT] <= 2
    found = run(half, **feed) if precision == "fp16" else ReferenceEvaluator(half).run(None, feed)
    # onnx's evaluator, which runs bf16, adds up in bf16 too; engines keep their sums in fp32.
    tolerance = {"fp16": 2**-7, "bf16": 0.2}[precision]
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.dtype == theirs.dtype
        mine, theirs = mine.astype(np.float64), theirs.astype(np.float64)
        assert np.linalg.norm(mine - theirs) <= tolerance * np.linalg.norm(theirs)
