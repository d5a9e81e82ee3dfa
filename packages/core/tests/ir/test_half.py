"""Graphs in fp16 and bf16 are valid, with unchanged interfaces and similar outputs."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import enginebay as eb
from enginebay.environment import install_command
from enginebay.errors import ConversionError, MissingDependencyError
from enginebay.ir import half_precision
from enginebay.ir.half_precision import FP32_OPS, to_half

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Convert = Callable[..., onnx.ModelProto]

FLOAT, HALF, BF16 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16


@pytest.fixture
def convert(tmp_path: Path) -> Convert:
    """Convert a model by way of files, and check that the result is valid."""

    def convert(
        proto: onnx.ModelProto, precision: Any = "fp16", **excluded: Any
    ) -> onnx.ModelProto:
        onnx.save(proto, tmp_path / "full.onnx")
        (written,) = to_half(tmp_path / "full.onnx", tmp_path / "half.onnx", precision, **excluded)
        onnx.checker.check_model(written, full_check=True)
        return onnx.load(written)

    return convert


def model(
    nodes: list[Any],
    inputs: Any,
    outputs: Any,
    weights: Any = (),
    opset: int = 17,
    functions: Any = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(*each) for each in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("mine", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=functions)


def run(proto: onnx.ModelProto, **feed: Any) -> list[Any]:
    outputs: list[Any] = ReferenceEvaluator(proto).run(None, feed)
    return outputs


def node(op: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    return helper.make_node(op, inputs, outputs, name=f"{op}_{outputs[0]}", **attributes)


def operators(proto: onnx.ModelProto) -> list[str]:
    return [each.op_type for each in proto.graph.node]


def dtypes(proto: onnx.ModelProto) -> set[int]:
    return {each.data_type for each in proto.graph.initializer}


def two_layers(opset: int = 17) -> onnx.ModelProto:
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
        opset,
    )


X = np.random.default_rng(1).standard_normal((2, 4)).astype(np.float32)


def test_casts_are_only_at_inputs_and_outputs(convert: Convert) -> None:
    converted = convert(two_layers())
    assert operators(converted) == ["Cast", "MatMul", "Relu", "MatMul", "Cast"]
    assert dtypes(converted) == {HALF}
    assert [v.name for v in (*converted.graph.input, *converted.graph.output)] == ["x", "y"]
    (wanted,), (found,) = run(two_layers(), x=X), run(converted, x=X)
    assert found.dtype == np.float32
    assert 0 < np.abs(found - wanted).max() < 2e-2


@pytest.mark.parametrize("opset", [17, 22])
def test_bf16_model_is_raised_to_opset_22(convert: Convert, opset: int) -> None:
    converted = convert(two_layers(opset), "bf16")
    assert converted.opset_import[0].version == 22
    assert dtypes(converted) == {BF16}
    (wanted,), (found,) = run(two_layers(), x=X), run(converted, x=X)
    np.testing.assert_allclose(found, wanted, rtol=5e-2, atol=5e-2)


def test_bf16_model_without_an_opset_conversion_is_refused(convert: Convert) -> None:
    unknown = two_layers()
    unknown.graph.node.append(node("Mystery", ["x"], ["z"]))
    with pytest.raises(ConversionError) as caught:
        convert(unknown, "bf16")
    assert str(caught.value).startswith(
        "bf16 requires opset 22, and the model cannot be converted from opset 17: "
    )
    assert caught.value.hint == "export the model with opset 22, or use another precision"


def test_operators_that_overflow_stay_in_fp32(convert: Convert) -> None:
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
    converted = convert(original)
    x = np.array([[150, 0, 0, 0]] * 2, np.float32)  # 300² is beyond fp16, 300² / 4 is not
    np.testing.assert_allclose(run(converted, x=x)[0], x / 75, rtol=1e-3)
    fp32_nodes = [each for each in converted.graph.node if each.op_type in FP32_OPS]
    assert [each.op_type for each in fp32_nodes] == ["Pow", "ReduceMean"]
    assert fp32_nodes[0].input[0] == "d"  # its fp32 name


def three() -> onnx.ModelProto:
    return model(
        [node("Relu", ["x"], ["a"]), node("Sqrt", ["a"], ["b"]), node("Relu", ["b"], ["y"])],
        [("x", FLOAT, [2])],
        [("y", FLOAT, [2])],
    )


@pytest.mark.parametrize(
    ("kept", "casts"),
    [
        ({}, 2),  # the input and the output
        ({"fp32_ops": ("Sqrt",)}, 4),  # also before and after Sqrt
        ({"fp32_nodes": ("Sqrt_b",)}, 4),
        ({"fp32_nodes": ("nobody",)}, 2),
    ],
)
def test_selected_operators_and_nodes_stay_in_fp32(convert: Convert, kept: Any, casts: int) -> None:
    assert operators(convert(three(), **kept)).count("Cast") == casts


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp16", np.float16), ("bf16", ml_dtypes.bfloat16)]
)
def test_weights_stay_finite_and_epsilons_stay_above_zero(
    convert: Convert, precision: str, dtype: Any
) -> None:
    given = np.array([-3.4e38, 3.4e38, -np.inf, 1e-42, -1e-42, 0, 1.5, np.nan], np.float32)
    original = model(
        [node("Add", ["x", "w"], ["y"])],
        [("x", FLOAT, [8])],
        [("y", FLOAT, [8])],
        [("w", given)],
    )
    (weight,) = convert(original, precision).graph.initializer
    limits = ml_dtypes.finfo(dtype)
    top, low = limits.max, limits.smallest_subnormal
    wanted = np.array([-top, top, -np.inf, low, -low, 0, 1.5, np.nan], dtype)
    found = numpy_helper.to_array(weight)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize(
    ("precision", "large", "largest"), [("fp16", 1e5, "65504"), ("bf16", 3.4e38, "3.38953e+38")]
)
def test_clipped_weights_are_named(
    tmp_path: Path, precision: str, large: float, largest: str
) -> None:
    original = model(
        [node("Mul", ["x", "w"], ["m"]), node("Add", ["m", "v"], ["y"])],
        [("x", FLOAT, [2])],
        [("y", FLOAT, [2])],
        [("w", np.array([1, -large], np.float32)), ("v", np.array([1, -np.inf], np.float32))],
    )
    onnx.save(original, tmp_path / "full.onnx")
    told: list[str] = []
    to_half(tmp_path / "full.onnx", tmp_path / "half.onnx", precision, suspect=told.append)
    (name,) = (node.name or "Mul" for node in original.graph.node if node.op_type == "Mul")
    (text,) = told
    assert text == (
        f"the constant {-large:.6g} of {name} is beyond {largest}, the largest number of "
        f"{precision}, which replaces it"
    )


def test_constants_are_converted_like_weights(convert: Convert) -> None:
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
    converted = convert(original)
    assert operators(converted) == ["Cast", "Add", "Softmax", "Cast"]
    # A fully masked row is uniform; -inf would make it NaN.
    found = run(converted, x=np.zeros((2, 3), np.float32))[0]
    np.testing.assert_allclose(found, 1 / 3, rtol=1e-3)


def test_subgraphs_compute_in_half_precision(convert: Convert) -> None:
    branch = {
        name: helper.make_graph(
            [helper.make_node(op, ["d", "w"], [f"{name}_out"])],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}_out", FLOAT, [3])],
        )
        for name, op in (("yes", "Add"), ("no", "Exp"))
    }
    del branch["no"].node[0].input[1]
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
    converted = convert(original)
    x = np.array([0.5, 1, 2], np.float32)
    for choice in (True, False):
        feed = {"x": x, "c": np.array(choice)}
        for found, wanted in zip(run(converted, **feed), run(original, **feed), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-3)
    assert dtypes(converted) == {HALF}
    (choice,) = (each for each in converted.graph.node if each.op_type == "If")
    inner = {a.name: [n.op_type for n in a.g.node] for a in choice.attribute}
    assert inner == {"then_branch": ["Add", "Cast"], "else_branch": ["Exp"]}


def test_loop_carried_values_are_correct(convert: Convert) -> None:
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["carried", "w"], ["next"]),
            helper.make_node("Identity", ["ongoing"], ["on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("number", TensorProto.INT64, []),
            helper.make_tensor_value_info("ongoing", TensorProto.BOOL, []),
            helper.make_tensor_value_info("carried", FLOAT, [2]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", FLOAT, [2]),
        ],
    )
    original = model(
        [helper.make_node("Loop", ["times", "go", "x"], ["y"], body=body)],
        [("x", FLOAT, [2])],
        [("y", FLOAT, [2])],
        [("times", np.array(3)), ("go", np.array(True)), ("w", np.array([2, 3], np.float32))],
    )
    found = run(convert(original), x=np.ones(2, np.float32))[0]
    np.testing.assert_array_equal(found, [8, 27])


def test_inputs_required_in_fp32_are_not_converted(convert: Convert) -> None:
    original = model(
        [
            node("Resize", ["x", "", "scales"], ["y"], mode="nearest"),
            node("TopK", ["x", "k"], ["v", "i"], axis=-1),
            node("Cast", ["i"], ["f"], to=FLOAT),
            helper.make_node("Mystery", ["x"], ["m"], domain="mine"),
        ],
        [("x", FLOAT, [1, 1, 2, 2])],
        [
            ("y", FLOAT, [1, 1, 4, 4]),
            ("v", FLOAT, [1, 1, 2, 1]),
            ("f", FLOAT, [1, 1, 2, 1]),
            ("m", FLOAT, [1, 1, 2, 2]),
        ],
        [("scales", np.array([1, 1, 2, 2], np.float32)), ("k", np.array([1]))],
    )
    by_name = {each.op_type: each for each in convert(original).graph.node}
    assert list(by_name["Resize"].input) == ["x__fp16", "", "scales"]
    assert list(by_name["TopK"].output) == ["v__fp16", "i"]
    assert by_name["Mystery"].input[0] == "x"


def test_operator_with_an_untyped_input_stays_in_fp32(convert: Convert) -> None:
    original = model(
        [
            helper.make_node("Mystery", ["x"], ["m"], domain="mine"),
            node("Add", ["m", "x"], ["s"]),
            node("Relu", ["x"], ["y"]),
        ],
        [("x", FLOAT, [2])],
        [("s", FLOAT, [2]), ("y", FLOAT, [2])],
    )
    by_name = {each.op_type: each for each in convert(original).graph.node}
    assert list(by_name["Add"].input) == ["m", "x"]
    assert list(by_name["Relu"].input) == ["x__fp16"]


def test_sequences_stay_in_fp32(convert: Convert) -> None:
    original = model(
        [
            node("Relu", ["x"], ["r"]),
            node("SequenceConstruct", ["r", "x"], ["both"]),
            node("ConcatFromSequence", ["both"], ["y"], axis=0),
        ],
        [("x", FLOAT, [2])],
        [("y", FLOAT, [4])],
    )
    x = np.array([1, -1], np.float32)
    np.testing.assert_array_equal(run(convert(original), x=x)[0], [1, 0, 1, -1])


def test_range_is_not_rounded_before_a_cast_to_int64(convert: Convert) -> None:
    original = model(
        [
            node("Range", ["zero", "end", "one"], ["r"]),
            node("Cast", ["r"], ["y"], to=TensorProto.INT64),
        ],
        [("end", FLOAT, [])],
        [("y", TensorProto.INT64, ["n"])],
        [("zero", np.float32(0)), ("one", np.float32(1))],
    )
    converted = convert(original)
    assert operators(converted) == ["Range", "Cast"]
    assert run(converted, end=np.float32(4096))[0][-1] == 4095  # fp16 would have 4096


def test_local_functions_are_inlined(convert: Convert) -> None:
    twice = onnx.parser.parse_function(
        '<domain: "mine", opset_import: ["": 17]> twice (a) => (b)'
        " { two = Constant<value = float[1] {2}>()  b = Mul(a, two) }"
    )
    original = model(
        [helper.make_node("twice", ["x"], ["y"], domain="mine")],
        [("x", FLOAT, [2])],
        [("y", FLOAT, [2])],
        functions=[twice],
    )
    assert operators(convert(original)) == ["Cast", "Mul", "Cast"]


def test_integer_model_is_not_converted(convert: Convert) -> None:
    original = model(
        [node("Add", ["k", "k"], ["y"])],
        [("k", TensorProto.INT64, [2])],
        [("y", TensorProto.INT64, [2])],
    )
    assert operators(convert(original)) == ["Add"]


@pytest.mark.parametrize("beside", [False, True])
def test_large_model_is_written_with_external_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: bool
) -> None:
    monkeypatch.setattr(half_precision, "INLINE_WEIGHT_BYTES", 1000)
    weights = [("w", np.ones((2, 1024), np.float32)), ("k", np.zeros(1024, np.int64))]
    original = model(
        [node("Add", ["x", "w"], ["y"]), node("Gather", ["x", "k"], ["z"], axis=1)],
        [("x", FLOAT, [2, 1024])],
        [("y", FLOAT, [2, 1024]), ("z", FLOAT, [2, 1024])],
        weights,
    )
    onnx.save(
        original,
        tmp_path / "full.onnx",
        save_as_external_data=beside,
        location="half.onnx.data",  # which the result replaces
        size_threshold=0,
    )
    for _ in range(1 if beside else 2):  # a second conversion replaces the first
        written = to_half(tmp_path / "full.onnx", tmp_path / "half.onnx", "fp16")
        assert written == [tmp_path / "half.onnx", tmp_path / "half.onnx.data"]
        assert written[1].stat().st_size == 1024 * (2 * 2 + 8)
    x = np.arange(2048, dtype=np.float32).reshape(2, 1024)
    y, z = run(onnx.load(written[0]), x=x)
    np.testing.assert_array_equal(y, x + 1)
    np.testing.assert_array_equal(z, np.repeat(x[:, :1], 1024, axis=1))


def test_small_model_with_external_weights_becomes_a_single_file(tmp_path: Path) -> None:
    onnx.save(
        two_layers(),
        tmp_path / "full.onnx",
        save_as_external_data=True,
        location="w.bin",
        size_threshold=0,
    )
    assert to_half(tmp_path / "full.onnx", tmp_path / "half.onnx", "fp16") == [
        tmp_path / "half.onnx"
    ]
    (tmp_path / "w.bin").unlink()
    np.testing.assert_allclose(
        run(onnx.load(tmp_path / "half.onnx"), x=X)[0], run(two_layers(), x=X)[0], atol=2e-2
    )


def test_missing_onnx_ir_hints_at_its_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx_ir", None)
    with pytest.raises(MissingDependencyError, match="precision fp16 requires onnx-ir: ") as caught:
        to_half(tmp_path / "full.onnx", tmp_path / "half.onnx", "fp16")
    assert caught.value.hint == install_command("enginebay[export]")


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_exported_network_in_half_precision_matches_fp32(
    tmp_path: Path, convert: Convert, precision: str, exporter: Any
) -> None:
    import torch
    from torch import nn

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
    eb.export(Net().eval(), args, path=path, options=eb.ExportOptions(exporter=exporter))
    original = onnx.load(path)
    feed = {"x": args[0].numpy(), "k": args[1].numpy()}
    converted = convert(original, precision)
    low = {"fp16": HALF, "bf16": BF16}[precision]
    kinds = Counter(each.data_type for each in converted.graph.initializer)
    assert kinds[low] == 10  # every weight except those of fp32 nodes
    assert kinds[FLOAT] <= 2
    # onnx's evaluator also sums in half precision; engines sum in fp32.
    tolerance = {"fp16": 2**-7, "bf16": 0.2}[precision]
    for mine, theirs in zip(run(converted, **feed), run(original, **feed), strict=True):
        assert mine.dtype == theirs.dtype
        mine, theirs = mine.astype(np.float64), theirs.astype(np.float64)
        assert np.linalg.norm(mine - theirs) <= tolerance * np.linalg.norm(theirs)
