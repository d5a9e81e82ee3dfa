"""Models of one operator each: inputs, and every combination of the attributes given."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from onnx import TensorProto as T, numpy_helper


class Case(NamedTuple):
    """An operator, its inputs (None: left out), and what is an attribute or an input by version."""

    operator: str
    inputs: tuple[Any, ...]
    options: dict[str, Any]
    outputs: int


CASES: list[Case] = []
rng = np.random.default_rng(0)


def case(operator: str, *inputs: Any, outputs: int = 1, **options: list[Any]) -> None:
    """Add a case for each combination of the options; None leaves an option out."""
    for values in itertools.product(*options.values()):
        given = dict(zip(options, values, strict=True))
        chosen = {name: value for name, value in given.items() if value is not None}
        CASES.append(Case(operator, inputs, chosen, outputs))


def normal(*shape: int) -> Any:
    return rng.standard_normal(shape).astype("f4")


def positive(*shape: int) -> Any:
    return rng.uniform(0.1, 0.9, shape).astype("f4")


def integers(low: int, high: int, *shape: int, dtype: str = "i8") -> Any:
    return rng.integers(low, high, shape).astype(dtype)


array = np.asarray
x1, x2, x3, x4, x5 = (
    normal(5),
    normal(3, 4),
    normal(2, 3, 4),
    normal(2, 3, 6, 5),
    normal(1, 2, 4, 3, 3),
)
for op in (
    *("Abs", "Neg", "Exp", "Ceil", "Floor", "Round", "Relu", "Sigmoid", "Tanh", "Sin", "Cos"),
    *("Tan", "Sinh", "Cosh", "Asinh", "Atan", "Sign", "Softplus", "Softsign", "Erf"),
    *("Identity", "Selu", "Mish", "Gelu", "HardSwish", "IsNaN", "Not"),
):
    case(op, x3 if op != "Not" else x3 > 0)
case("Round", array([0.5, 1.5, 2.5, -0.5, -1.5], "f4"))
case("Gelu", x3, approximate=[None, "tanh"])
for op in ("Log", "Sqrt", "Reciprocal", "Asin", "Acos", "Atanh"):
    case(op, positive(3, 4))
case("Acosh", positive(3, 4) + 1)
case(
    "IsInf",
    array([np.inf, -np.inf, np.nan, 1], "f4"),
    detect_negative=[None, 0],
    detect_positive=[None, 0],
)
for op in (
    *("Add", "Sub", "Mul", "Div", "Pow", "Equal", "Greater", "Less", "GreaterOrEqual"),
    *("LessOrEqual", "PRelu"),
):
    case(op, positive(2, 3, 4), positive(3, 1))
    case(op, positive(2, 3, 4), positive(1))
case("Div", integers(-9, 9, 12), integers(1, 4, 12))
case("Div", integers(-9, 9, 12), -integers(1, 4, 12))
case("Pow", x3, array(2, "f4"))
case("Pow", x3, array(2, "i8"))
case("Pow", integers(1, 5, 6), array(3, "i8"))
case("Pow", integers(1, 5, 6, dtype="i4"), array(0.5, "f4"))
case("Equal", integers(0, 3, 4), integers(0, 3, 4))
for op in ("And", "Or", "Xor"):
    case(op, x2 > 0, normal(1, 4) > 0)
case("Mod", integers(-9, 9, 12), integers(1, 4, 12), fmod=[None, 0, 1])
case("Mod", integers(-9, 9, 12), -integers(1, 4, 12), fmod=[None, 1])
case("Mod", normal(12) * 9, normal(12), fmod=[1])
case(
    "BitShift",
    integers(0, 9, 6, dtype="u1"),
    integers(0, 3, 6, dtype="u1"),
    direction=["LEFT", "RIGHT"],
)
for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    case(op, integers(0, 99, 6, dtype="i4"), integers(0, 99, 6, dtype="i4"))
case("BitwiseNot", integers(0, 99, 6, dtype="i4"))
for op in ("Max", "Min", "Sum", "Mean"):
    case(op, x2, normal(3, 4), normal(3, 4))
    case(op, x2)
    case(op, x3, normal(1, 4), normal(3, 1))
case("Max", integers(0, 9, 4), integers(0, 9, 4))
case("Clip", x3, min=[None, array(-0.5, "f4")], max=[None, array(0.5, "f4")])
case("Clip", x3, min=[array(0.5, "f4")], max=[array(-0.5, "f4")])
case("Elu", x3, alpha=[None, 0.5])
case("Celu", x3, alpha=[None, 0.5])
case("LeakyRelu", x3, alpha=[None, 0.3, 0.0])
case("ThresholdedRelu", x3, alpha=[None, 0.3])
case("HardSigmoid", x3, alpha=[None, 0.3], beta=[None, 0.1])
case("Shrink", x3, lambd=[None, 0.3], bias=[None, 0.1])
case("Selu", x3, alpha=[None, 1.2], gamma=[None, 1.1])
case("Swish", x3, alpha=[None, 0.5])
for op in ("Softmax", "LogSoftmax", "Hardmax"):
    for x in (x1, x2, x3, x4):
        case(op, x, axis=[None, *range(-x.ndim, x.ndim)])
    case(op, normal(1, 10, 1, 1), axis=[None])
    case(op, normal(1, 10, 2, 2), axis=[None])
case("Flatten", x4, axis=[None, 0, 1, 2, 3, 4, -1, -2])
for op in (
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1"),
    *("ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"),
):
    case(op, x3, axes=[None, [1], [0, 2], [-1], [-1, 0]], keepdims=[None, 0, 1])
case("ReduceSum", x3, axes=[None, []], noop_with_empty_axes=[None, 0, 1], keepdims=[0, 1])
case("ReduceMean", x3, axes=[None, []], noop_with_empty_axes=[None, 1])
case("ReduceLogSum", positive(2, 3, 4), axes=[None, [1], [-1, 0]], keepdims=[None, 0])
case("ReduceSumSquare", x3, noop_with_empty_axes=[1])
case("ReduceL2", x3, noop_with_empty_axes=[1])
case("ReduceSum", integers(0, 9, 2, 3), axes=[[1]])
case("ReduceMean", integers(0, 9, 2, 3, dtype="i4"), axes=[[1]])
case("ReduceLogSumExp", x3 * 100, axes=[[1]])
same = array([[1, 2, 2, 0], [2, 1, 2, 2], [0, 0, 0, 0]], "f4")
for op in ("ArgMax", "ArgMin"):
    case(op, same, axis=[None, 0, 1, -1], keepdims=[None, 0], select_last_index=[None, 1])
case(
    "TopK",
    x3,
    k=[array([2])],
    axis=[None, 0, 1, -2],
    largest=[None, 0],
    sorted=[None, 1],
    outputs=2,
)
case("TopK", same, k=[array([3])], outputs=2)
case("TopK", same, k=[array([2])], largest=[0], outputs=2)
case("CumSum", x3, array(1), exclusive=[None, 1], reverse=[None, 1])
case("CumSum", x3, array(-1, "i4"))
case("CumProd", x3, array(1), exclusive=[None, 1], reverse=[None, 1])
case(
    "BatchNormalization",
    x4,
    positive(3),
    normal(3),
    normal(3),
    positive(3),
    epsilon=[None, 0.01],
    momentum=[None, 0.9, 0.5, 0.0],
)
case(
    "BatchNormalization",
    normal(4, 3),
    positive(3),
    normal(3),
    normal(3),
    positive(3),
    momentum=[None, 0.9],
)
case(
    "BatchNormalization",
    normal(2, 3, 4),
    positive(3),
    normal(3),
    normal(3),
    positive(3),
    momentum=[None, 0.9],
)
case(
    "BatchNormalization",
    x4,
    positive(3),
    normal(3),
    normal(3),
    positive(3),
    spatial=[1],
    momentum=[0.9],
)
case(
    "BatchNormalization",
    x4,
    positive(3, 6, 5),
    normal(3, 6, 5),
    normal(3, 6, 5),
    positive(3, 6, 5),
    spatial=[0],
)
case(
    "BatchNormalization",
    x4,
    positive(3),
    normal(3),
    normal(3),
    positive(3),
    training_mode=[0, 1],
    momentum=[None, 0.7],
)
case("InstanceNormalization", x4, positive(3), normal(3), epsilon=[None, 0.01])
case("InstanceNormalization", x3, positive(3), normal(3))
case("LayerNormalization", x3, normal(4), normal(4), axis=[None, -1], epsilon=[None, 0.01])
case("LayerNormalization", x3, normal(3, 4), normal(3, 4), axis=[1, -2])
case("LayerNormalization", x3, normal(4))
case("RMSNormalization", x3, normal(4), axis=[None, -1], epsilon=[None, 0.1])
case("GroupNormalization", normal(2, 4, 3, 3), positive(2), normal(2), num_groups=[2])
case(
    "GroupNormalization",
    normal(2, 4, 3, 3),
    positive(4),
    normal(4),
    num_groups=[2],
    epsilon=[None, 0.1],
)
case("GroupNormalization", normal(2, 4, 3), positive(4), normal(4), num_groups=[1, 2, 4])
for x in (normal(1, 6, 3, 3), normal(2, 6, 3, 3), normal(2, 3, 4, 4)):
    case("LRN", x, size=[3, 5, 2, 4], alpha=[None, 0.1], beta=[None, 0.5], bias=[None, 2.0])
case("LRN", normal(2, 6, 5), size=[3])
case("LpNormalization", x3, axis=[None, 0, 1, -1], p=[None, 1, 2])
case("MeanVarianceNormalization", x4, axes=[None, [0, 2, 3], [1, 2]])
case(
    "LpPool",
    x4,
    kernel_shape=[[2, 3]],
    p=[None, 1, 3],
    strides=[None, [2, 2]],
    pads=[None, [1, 1, 0, 1]],
)
case("LpPool", x4, kernel_shape=[[2, 2]], ceil_mode=[1], strides=[[2, 2]])
case("LpPool", x4, kernel_shape=[[2, 2]], dilations=[[2, 2]])
case(
    "LpPool",
    x4,
    kernel_shape=[[3, 3]],
    auto_pad=["SAME_UPPER", "SAME_LOWER", "VALID"],
    strides=[None, [2, 2]],
)
case("GlobalLpPool", x4, p=[None, 1, 3])
for op in ("GlobalAveragePool", "GlobalMaxPool"):
    case(op, x4)
    case(op, x3)
    case(op, x5)
P = normal(1, 2, 7, 8)
case(
    "MaxPool",
    P,
    kernel_shape=[[3, 2]],
    strides=[None, [1, 1], [2, 2], [2, 3]],
    pads=[None, [1, 0, 1, 1], [1, 1, 1, 1]],
    ceil_mode=[None, 1],
    dilations=[None, [2, 2], [1, 2]],
)
case(
    "MaxPool",
    P,
    kernel_shape=[[3, 3]],
    auto_pad=["SAME_UPPER", "SAME_LOWER", "VALID"],
    strides=[None, [2, 2], [2, 1]],
)
case(
    "MaxPool",
    P,
    kernel_shape=[[2, 2]],
    strides=[None, [2, 2]],
    storage_order=[None, 1],
    ceil_mode=[None, 1],
    pads=[None, [1, 1, 1, 1]],
    outputs=2,
)
case(
    "MaxPool",
    normal(1, 2, 7),
    kernel_shape=[[3]],
    strides=[None, [2]],
    pads=[None, [1, 1]],
    ceil_mode=[None, 1],
    dilations=[None, [2]],
)
case("MaxPool", normal(1, 1, 5, 5, 5), kernel_shape=[[2, 2, 2]], strides=[None, [2, 2, 2]])
case("MaxPool", -positive(1, 1, 5, 5), kernel_shape=[[3, 3]], pads=[[1, 1, 1, 1]], strides=[[2, 2]])
case(
    "MaxPool",
    integers(-9, 9, 1, 1, 5, 5, dtype="i1"),
    kernel_shape=[[2, 2]],
    strides=[None, [2, 2]],
)
case(
    "AveragePool",
    P,
    kernel_shape=[[3, 2]],
    strides=[None, [2, 2], [2, 3]],
    pads=[None, [1, 0, 1, 1], [1, 1, 1, 1]],
    ceil_mode=[None, 1],
    count_include_pad=[None, 1],
    dilations=[None, [2, 2]],
)
case(
    "AveragePool",
    P,
    kernel_shape=[[3, 3]],
    auto_pad=["SAME_UPPER", "SAME_LOWER", "VALID"],
    strides=[None, [2, 2], [2, 1]],
    count_include_pad=[None, 1],
)
case(
    "AveragePool",
    normal(1, 2, 7),
    kernel_shape=[[3]],
    strides=[None, [2]],
    pads=[None, [1, 1]],
    ceil_mode=[None, 1],
    count_include_pad=[None, 1],
)
case("AveragePool", normal(1, 1, 5, 5, 5), kernel_shape=[[2, 2, 2]], strides=[None, [2, 2, 2]])
mp, mi = normal(1, 1, 3, 3), array([[[[0, 3, 5], [12, 15, 16], [24, 26, 35]]]])
case(
    "MaxUnpool",
    mp,
    mi,
    kernel_shape=[[2, 2]],
    strides=[[2, 2]],
)
case(
    "Conv",
    P,
    normal(4, 2, 3, 2),
    None,
    strides=[None, [2, 2], [1, 3]],
    pads=[None, [1, 0, 1, 1], [2, 2, 2, 2]],
    dilations=[None, [2, 2], [1, 3]],
)
case("Conv", P, normal(4, 2, 3, 2), normal(4), strides=[None, [2, 2]])
case(
    "Conv",
    normal(1, 4, 7, 7),
    normal(6, 2, 3, 3),
    normal(6),
    group=[2],
    kernel_shape=[None, [3, 3]],
    dilations=[None, [2, 2]],
)
case(
    "Conv",
    normal(2, 4, 7, 7),
    normal(4, 1, 3, 3),
    normal(4),
    group=[4],
    pads=[[1, 1, 1, 1]],
    strides=[None, [2, 2]],
)
case(
    "Conv",
    P,
    normal(4, 2, 3, 3),
    auto_pad=["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"],
    strides=[None, [2, 2], [2, 1]],
)
case("Conv", P, normal(4, 2, 3, 3), auto_pad=["SAME_UPPER", "SAME_LOWER"], dilations=[[2, 2]])
case("Conv", P, normal(4, 2, 2, 2), auto_pad=["SAME_UPPER", "SAME_LOWER"])
case(
    "Conv",
    normal(2, 3, 9),
    normal(4, 3, 3),
    normal(4),
    strides=[None, [2]],
    pads=[None, [1, 2]],
    dilations=[None, [2]],
)
case(
    "Conv",
    normal(1, 2, 4, 5, 6),
    normal(3, 2, 2, 3, 2),
    strides=[None, [2, 1, 2]],
    pads=[None, [1, 0, 1, 0, 1, 1]],
    dilations=[None, [1, 2, 2]],
)
case("Conv", P, normal(1, 2, 3, 3), normal(1))
case(
    "ConvInteger",
    integers(0, 255, 1, 2, 5, 5, dtype="u1"),
    integers(0, 255, 3, 2, 3, 3, dtype="u1"),
    x_zero_point=[None, array(9, "u1")],
    w_zero_point=[None, array(3, "u1")],
)
case(
    "ConvInteger",
    integers(0, 255, 1, 2, 5, 5, dtype="u1"),
    integers(-99, 99, 3, 2, 3, 3, dtype="i1"),
    array(9, "u1"),
    None,
    pads=[None, [1, 1, 1, 1]],
    strides=[None, [2, 2]],
)
case(
    "ConvTranspose",
    normal(1, 2, 4, 5),
    normal(2, 3, 3, 2),
    None,
    strides=[None, [2, 2], [2, 3]],
    pads=[None, [1, 0, 1, 1]],
    output_padding=[None, [1, 1]],
    dilations=[None, [2, 2]],
)
case(
    "ConvTranspose", normal(1, 4, 4, 4), normal(4, 3, 3, 3), normal(6), group=[2], strides=[[2, 2]]
)
case("ConvTranspose", normal(1, 4, 4, 4), normal(4, 1, 3, 3), group=[4])
case(
    "ConvTranspose",
    normal(1, 2, 4, 4),
    normal(2, 3, 3, 3),
    auto_pad=["SAME_UPPER", "SAME_LOWER", "VALID"],
    strides=[None, [2, 2]],
)
case(
    "ConvTranspose",
    normal(1, 2, 4, 4),
    normal(2, 3, 3, 3),
    output_shape=[[9, 9], [8, 8]],
    strides=[[2, 2]],
    auto_pad=[None, "SAME_UPPER", "SAME_LOWER"],
)
case("ConvTranspose", normal(1, 2, 5), normal(2, 3, 3), strides=[None, [2]], pads=[None, [1, 1]])
case(
    "ConvTranspose",
    normal(2, 2, 4, 4),
    normal(2, 3, 3, 3),
    normal(3),
    strides=[[2, 2]],
    pads=[[1, 1, 1, 1]],
)
case("DeformConv", normal(1, 2, 5, 5), normal(3, 2, 3, 3), normal(1, 18, 3, 3))
case("Col2Im", normal(1, 8, 9), array([4, 4]), array([2, 2]), strides=[None, [1, 1]])
case("MatMul", x3, normal(4, 5))
case("MatMul", normal(4), normal(4))
case("MatMul", x3, normal(4))
case("MatMul", normal(2, 1, 3, 4), normal(3, 4, 2))
case("Gemm", normal(3, 4), normal(4, 5), normal(5), alpha=[None, 0.5], beta=[None, 2.0, 0.0])
case("Gemm", normal(4, 3), normal(5, 4), normal(3, 5), transA=[1], transB=[1])
case("Gemm", normal(3, 4), normal(4, 5))
case("Gemm", normal(3, 4), normal(4, 5), normal(3, 1))
case("Gemm", normal(3, 4), normal(4, 5), array(2.0, "f4"))
case(
    "MatMulInteger",
    integers(0, 255, 3, 4, dtype="u1"),
    integers(0, 255, 4, 5, dtype="u1"),
    a_zero_point=[None, array(12, "u1")],
    b_zero_point=[None, array(5, "u1")],
)
case(
    "MatMulInteger",
    integers(0, 255, 3, 4, dtype="u1"),
    integers(-128, 127, 4, 5, dtype="i1"),
    array(12, "u1"),
    integers(-9, 9, 5, dtype="i1"),
)
case("MatMulInteger", integers(0, 255, 2, 3, 4, dtype="u1"), integers(-128, 127, 4, 5, dtype="i1"))
case("Einsum", x3, normal(2, 4, 5), equation=["bij,bjk->bik", "bij, bjk -> ki", "bij,bjk"])
case("Einsum", normal(3, 3), equation=["ii->i", "ii"])
case("Transpose", x3, perm=[None, [2, 0, 1]])
case("Reshape", x3, array([0, -1]))
case("Reshape", normal(0, 3), array([3, 0]), allowzero=[None, 1])
case("Squeeze", normal(1, 3, 1, 2), axes=[None, [0], [2], [0, 2], [-2], [2, 0], [-4]])
case("Unsqueeze", x2, axes=[[0], [0, 2], [-1], [3, 0], [0, -1]])
case("Squeeze", normal(1, 1, 1), axes=[[0, 1]])
case("Squeeze", normal(1, 4, 1), axes=[[-1, 0], [0, -1], [0, 2]])
case("Concat", x3, x3, axis=[0, 1, -1])
case("Split", normal(6, 4), split=[None, [2, 4]], axis=[None, 0], outputs=2)
case("Split", normal(7, 4), num_outputs=[2], outputs=2)
case("Split", normal(3, 6), axis=[1, -1], split=[[1, 2, 3]], outputs=3)
case("Slice", x4, starts=[[1, 0]], ends=[[2, 3]], axes=[None, [1, 3], [-1, -2]])
case("Slice", x4, array([5, -1]), array([-100, 0]), array([2, 3]), array([-2, -1]))
case("Slice", x4, array([0]), array([2**62]), array([-1]), array([2]))
case("Slice", x1, array([-1]), array([-6]), array([0]), array([-1]))
case("Slice", x4, starts=[[-2]], ends=[[2**31]], axes=[[2]])
case("Gather", x3, integers(0, 2, 2, 2), axis=[None, 1, -1])
case("Gather", x3, integers(-3, 3, 4), axis=[1])
case("Gather", x3, array(1), axis=[1])
case("GatherElements", normal(3, 4), integers(0, 3, 2, 4), axis=[None, 0, 1])
case("GatherElements", normal(80, 4), integers(0, 80, 7, 4), axis=[0])
case("GatherElements", normal(3, 80), integers(-3, 3, 3, 5), axis=[1])
case("GatherND", x3, array([[0, 1], [1, 2]]))
case("GatherND", x3, array([[[0], [1]], [[2], [-1]]]), batch_dims=[1])
case(
    "ScatterElements",
    normal(3, 4),
    integers(0, 3, 2, 4),
    normal(2, 4),
    axis=[None, 0],
    reduction=[None, "add", "mul", "max", "min"],
)
case(
    "ScatterElements",
    normal(3, 4),
    array([[1, 0, -1], [0, 1, 2], [3, 2, 1]]),
    normal(3, 3),
    axis=[1],
    reduction=[None, "add"],
)
case("Scatter", normal(3, 4), array([[1, 0, 1, 2]]), normal(1, 4), axis=[None, 0])
case(
    "ScatterND",
    normal(4, 3),
    array([[0], [2], [0]]),
    normal(3, 3),
    reduction=["add", "mul", "max", "min"],
)
case("ScatterND", normal(4, 3), array([[0], [-2]]), normal(2, 3))
case(
    "ScatterElements",
    normal(2, 3, 4),
    integers(0, 3, 2, 2, 4),
    normal(2, 2, 4),
    axis=[1],
    reduction=["add", "mul", "max"],
)
case("Expand", normal(3, 1), array([2, 1, 4]))
case("Tile", x2, array([2, 3]))
case("Where", x3 > 0, x3, normal(4))
case("Shape", x3, start=[None, 1, -1], end=[None, 2, -1])
case("Size", x3)
case("NonZero", array([[0, 1], [2, 0]], "f4"))
case("EyeLike", x2, k=[None, 1, -1], dtype=[None, 7])
case("Trilu", x3, upper=[None, 0, 1])
case("Trilu", x3, array(1), upper=[None, 0])
case("Trilu", normal(3, 4), array(-1), upper=[None, 0])
case("Range", array(1.0), array(9.0), array(2.0))
case("ConstantOfShape", array([2, 3]), value=[None, numpy_helper.from_array(array([4], "i8"))])
case("OneHot", integers(-3, 3, 4), array(3), array([0, 1], "f4"), axis=[None, 0, 1])
case("OneHot", integers(-5, 6, 4), array([3]), array([-1, 1], "f4"))
case("OneHot", integers(0, 3, 2, 2).astype("f4"), array([3.0], "f4"), array([2, 5], "i8"))
case("Compress", x3, array([True, False, True]), axis=[1, -2])
case("Compress", x3, array([True, False, True, False, True]))
case(
    "Pad",
    x3,
    pads=[array([0, 1, 2, 0, 0, 1]), array([0, 0, -1, 0, 1, 0])],
    mode=[None, "constant"],
    value=[None, array(2.5, "f4")],
)
case("Pad", x3, pads=[array([0, 1, 2, 0, 2, 3])], mode=["reflect", "edge", "wrap"])
case("Pad", x3, pads=[array([1, 1])], value=[array(1.0, "f4")], axes=[array([-1])])
case("DepthToSpace", normal(1, 8, 2, 3), blocksize=[2], mode=[None, "DCR", "CRD"])
case("SpaceToDepth", normal(1, 2, 4, 6), blocksize=[2])
case("Dropout", x3, ratio=[None, 0.3])
case("Dropout", x3, ratio=[0.3], training_mode=[None, False])
case("ReverseSequence", normal(4, 3, 2), array([4, 1, 2]), batch_axis=[None], time_axis=[None])
case("ReverseSequence", normal(3, 4), array([4, 1, 2]), batch_axis=[0], time_axis=[1])
case("Unique", array([2, 1, 1, 3, 4, 3], "f4"), sorted=[None, 0], outputs=4)
case("Unique", array([[1, 0, 0], [1, 0, 0], [2, 3, 4]], "f4"), axis=[0], outputs=4)
case("Det", normal(2, 3, 3))
case("CenterCropPad", x3, array([1, 5, 3]))
case("CenterCropPad", x3, array([5, 3]), axes=[[1, 2], [-2, -1]])
up = normal(1, 1, 4, 5)
case(
    "Upsample",
    up,
    mode=[None, "nearest", "linear"],
    scales=[[1.0, 1.0, 2.0, 3.0], [1.0, 1.0, 1.5, 2.0]],
)
scl, siz = array([1, 1, 2, 1.7], "f4"), array([1, 1, 7, 3])
dn = array([1, 1, 0.6, 0.5], "f4")
case(
    "Resize",
    up,
    None,
    scl,
    mode=[None, "nearest", "linear", "cubic"],
    coordinate_transformation_mode=[
        None,
        "half_pixel",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
        "half_pixel_symmetric",
        "tf_half_pixel_for_nn",
    ],
    nearest_mode=[None, "floor", "ceil", "round_prefer_ceil"],
)
case(
    "Resize",
    up,
    None,
    None,
    siz,
    mode=[None, "nearest", "linear", "cubic"],
    coordinate_transformation_mode=[
        None,
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
        "half_pixel_symmetric",
    ],
)
case(
    "Resize",
    up,
    None,
    dn,
    mode=["linear", "cubic", None],
    antialias=[None, 1],
    exclude_outside=[None, 1],
)
case("Resize", up, None, scl, mode=["cubic"], cubic_coeff_a=[None, -0.5], exclude_outside=[None, 1])
case("Resize", up, array([2.0, 1.5], "f4"), axes=[None])
case("Resize", up, None, array([2.0, 1.5], "f4"), axes=[[2, 3], [3, 2]], mode=["linear"])
case(
    "Resize",
    up,
    None,
    None,
    array([6, 6]),
    axes=[[2, 3]],
    keep_aspect_ratio_policy=["not_larger", "not_smaller"],
)
case(
    "Resize",
    up,
    array([0, 0, 0.2, 0.1, 1, 1, 0.8, 0.9], "f4"),
    None,
    siz,
    mode=["linear"],
    coordinate_transformation_mode=["tf_crop_and_resize"],
    extrapolation_value=[None, 9.0],
)
case("Resize", up, scl, mode=[None, "nearest", "linear"])
case("Resize", normal(1, 1, 5), None, array([1, 1, 2.3], "f4"), mode=[None, "linear", "cubic"])
g = rng.uniform(-1.6, 1.6, (2, 4, 3, 2)).astype("f4")
case(
    "GridSample",
    normal(2, 2, 5, 6),
    g,
    mode=[None, "bilinear", "nearest", "bicubic", "linear", "cubic"],
    padding_mode=[None, "border", "reflection"],
    align_corners=[None, 1],
)
case(
    "GridSample",
    normal(1, 1, 3, 4, 5),
    rng.uniform(-1.2, 1.2, (1, 2, 3, 2, 3)).astype("f4"),
    mode=[None, "nearest"],
    align_corners=[None, 1],
)
case("AffineGrid", normal(2, 2, 3), array([2, 3, 4, 5]), align_corners=[None, 1])
rois = array([[0, 0, 4, 4], [1, 2, 5.5, 6], [-1, -2, 9, 9]], "f4")
case(
    "RoiAlign",
    normal(2, 3, 8, 8),
    rois,
    array([0, 1, 0]),
    output_height=[None, 3],
    output_width=[2],
    sampling_ratio=[None, 2],
    spatial_scale=[None, 0.5],
    mode=[None, "max"],
    coordinate_transformation_mode=[None, "output_half_pixel", "half_pixel"],
)
case("MaxRoiPool", normal(1, 2, 6, 6), array([[0, 0, 0, 3, 3.0]], "f4"), pooled_shape=[[2, 2]])
bx = array(
    [
        [
            [0, 0, 1, 1],
            [0, 0.1, 1, 1.1],
            [0, -0.1, 1, 0.9],
            [0, 10, 1, 11],
            [0, 10.1, 1, 11.1],
            [0, 100, 1, 101],
        ]
    ],
    "f4",
)
sc = array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3]]], "f4")
case(
    "NonMaxSuppression",
    bx,
    sc,
    max_output_boxes_per_class=[array([3]), None],
    iou_threshold=[None, array([0.5], "f4")],
    score_threshold=[None, array([0.4], "f4")],
    center_point_box=[None, 1],
)
case(
    "NonMaxSuppression",
    np.concatenate([bx, bx + 1]),
    np.concatenate([sc, sc[:, :, ::-1]]).repeat(2, 1),
    array([2]),
    array([0.5], "f4"),
)
q = array([[-300, -1.5, -0.5, 0, 0.5, 1.5, 300]], "f4")
case("QuantizeLinear", q, array(0.5, "f4"), y_zero_point=[None, array(128, "u1"), array(3, "i1")])
case("QuantizeLinear", normal(2, 3, 4), positive(3), array([1, 2, 3], "u1"), axis=[None, 1, -2])
case("QuantizeLinear", q * 1e12, array(0.5, "f4"), array(0, "i1"))
case("QuantizeLinear", q, array(0.5, "f4"), array(7, "u2"))
case(
    "DequantizeLinear",
    integers(0, 255, 2, 3, 4, dtype="u1"),
    array(0.1, "f4"),
    x_zero_point=[None, array(128, "u1")],
)
case(
    "DequantizeLinear",
    integers(-128, 127, 2, 3, 4, dtype="i1"),
    positive(3),
    integers(-9, 9, 3, dtype="i1"),
    axis=[None, 1, -2],
)
case("DequantizeLinear", integers(-999, 999, 5, dtype="i4"), array(0.1, "f4"))
case(
    "DequantizeLinear", integers(0, 255, 4, 6, dtype="u1"), positive(2, 6), axis=[0], block_size=[2]
)
case("DynamicQuantizeLinear", normal(3, 4), outputs=3)
case("DynamicQuantizeLinear", positive(3, 4), outputs=3)
case("DynamicQuantizeLinear", -positive(3, 4), outputs=3)
case(
    "QLinearMatMul",
    integers(0, 255, 2, 4, dtype="u1"),
    array(0.01, "f4"),
    array(120, "u1"),
    integers(0, 255, 4, 3, dtype="u1"),
    array(0.02, "f4"),
    array(110, "u1"),
    array(0.03, "f4"),
    array(100, "u1"),
)
# Weights of half the range: with all of it, ONNX Runtime saturates on x86 without VNNI.
case(
    "QLinearMatMul",
    integers(0, 255, 2, 4, dtype="u1"),
    array(0.01, "f4"),
    array(120, "u1"),
    integers(-64, 63, 4, 3, dtype="i1"),
    array([0.02] * 3, "f4"),
    array([0] * 3, "i1"),
    array(0.03, "f4"),
    array(100, "u1"),
)
case(
    "QLinearConv",
    integers(0, 255, 1, 2, 5, 5, dtype="u1"),
    array(0.01, "f4"),
    array(120, "u1"),
    integers(0, 255, 3, 2, 3, 3, dtype="u1"),
    array(0.02, "f4"),
    array(110, "u1"),
    array(0.05, "f4"),
    array(100, "u1"),
    pads=[None, [1, 1, 1, 1]],
)
case(
    "QLinearConv",
    integers(0, 255, 1, 2, 5, 5, dtype="u1"),
    array(0.01, "f4"),
    array(120, "u1"),
    integers(-64, 63, 3, 2, 3, 3, dtype="i1"),
    positive(3) / 50,
    array([0, 0, 0], "i1"),
    array(0.05, "f4"),
    array(100, "u1"),
    integers(-99, 99, 3, dtype="i4"),
    dilations=[None, [2, 2]],
)
case(
    "QLinearConv",
    integers(0, 255, 1, 4, 5, 5, dtype="u1"),
    array(0.01, "f4"),
    array(120, "u1"),
    integers(-64, 63, 4, 1, 3, 3, dtype="i1"),
    positive(4) / 50,
    array([0] * 4, "i1"),
    array(0.05, "f4"),
    array(100, "u1"),
    integers(-99, 99, 4, dtype="i4"),
    group=[4],
)
for t in (T.INT32, T.INT64, T.UINT8, T.BOOL, T.FLOAT16, T.DOUBLE, T.INT8):
    case("Cast", array([-1.7, -0.5, 0, 0.5, 1.5, 100.6], "f4"), to=[t])
case("Cast", integers(0, 3, 4), to=[T.FLOAT, T.BOOL, T.STRING])
case("CastLike", x2, array([1], "i4"))
case("Cast", x1 > 0, to=[T.FLOAT])
Tn, B, In, H = 5, 3, 4, 6
for op, k in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
    extra = {"linear_before_reset": [None, 1]} if op == "GRU" else {}
    no = 3 if op == "LSTM" else 2
    for d, dirs in ((1, [None, "reverse"]), (2, ["bidirectional"])):
        w, r = normal(d, k * H, In), normal(d, k * H, H) / 2
        b = normal(d, 2 * k * H)
        h0 = normal(d, B, H)
        recurrent = partial(case, op, direction=dirs, hidden_size=[H], outputs=no)
        recurrent(normal(Tn, B, In), w, r, None, None, None, **extra)
        recurrent(normal(Tn, B, In), w, r, b, None, h0, **extra)
        recurrent(normal(Tn, B, In), w, r, b, array([5, 3, 1], "i4"), h0, **extra)
        recurrent(normal(Tn, B, In), w, r, b, array([4, 0, 2], "i4"), None)
        recurrent(normal(Tn, B, In), w, r, b, None, None, clip=[0.3])
        recurrent(normal(B, Tn, In), w, r, b, None, None, layout=[1])
        acts = {
            "RNN": [["Relu"], ["Sigmoid"], ["Affine"]],
            "GRU": [["Sigmoid", "Relu"], ["HardSigmoid", "Tanh"]],
            "LSTM": [["Sigmoid", "Relu", "Tanh"], ["HardSigmoid", "Softsign", "Tanh"]],
        }[op]
        activations = [each * d for each in acts]
        recurrent(normal(Tn, B, In), w, r, b, None, None, activations=activations)
        if op == "LSTM":
            peepholes = normal(Tn, B, In), w, r, b, None, h0, normal(d, B, H), normal(d, 3 * H)
            recurrent(*peepholes)
            lengths = array([5, 3, 1], "i4")
            recurrent(normal(Tn, B, In), w, r, b, lengths, h0, normal(d, B, H))
            recurrent(normal(Tn, B, In), w, r, b, None, None, input_forget=[1])
sig = normal(2, 16, 1)
cplx = normal(2, 16, 2)
case("DFT", sig, axis=[None, 1], onesided=[None, 1])
case("DFT", sig, array(20), axis=[None, 1], onesided=[None, 1])
case("DFT", sig, array(10), axis=[None, 1], onesided=[None, 1])
case("DFT", cplx, inverse=[None, 1])
case("DFT", cplx, array(20), inverse=[None, 1])
case("DFT", normal(2, 9, 2), inverse=[1], onesided=[1])
case("DFT", normal(2, 3, 8, 1), None, array(2), onesided=[None, 1])
case("DFT", normal(2, 3, 8, 1), axis=[2, -2])
case("STFT", normal(2, 64), array(8), None, array(16), onesided=[None, 0, 1])
case("STFT", normal(2, 64, 1), array(8), None, array(16), onesided=[None, 0, 1])
case("STFT", normal(2, 64), array(8), positive(16), onesided=[None, 0])
case("STFT", normal(2, 64, 1), array(8), positive(16), array(16))
case("STFT", normal(1, 64, 2), array(8), None, array(16), onesided=[0])
case("STFT", normal(2, 64), array(8), positive(16), array(16))
case("STFT", normal(2, 64, 1), array(8), positive(12), array(16))
for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
    case(op, array(10), periodic=[None, 0])
case("MelWeightMatrix", array(8), array(64), array(8000), array(0.0, "f4"), array(4000.0, "f4"))
case("NegativeLogLikelihoodLoss", normal(3, 5), array([0, 2, 4]), reduction=[None, "sum", "none"])
case(
    "NegativeLogLikelihoodLoss", normal(3, 5), array([0, 2, 4]), positive(5), ignore_index=[None, 2]
)
case("SoftmaxCrossEntropyLoss", normal(3, 5), array([0, 2, 4]), reduction=[None, "sum", "none"])
case("SoftmaxCrossEntropyLoss", normal(3, 5), array([0, 2, 4]), positive(5), ignore_index=[None, 2])
case(
    "Attention",
    normal(1, 2, 4, 8),
    normal(1, 2, 6, 8),
    normal(1, 2, 6, 8),
    is_causal=[None, 1],
    scale=[None, 0.3],
    softcap=[None, 2.0],
)
case(
    "Attention",
    normal(1, 4, 16),
    normal(1, 6, 16),
    normal(1, 6, 16),
    q_num_heads=[2],
    kv_num_heads=[2],
)
case("Attention", normal(1, 2, 4, 8), normal(1, 2, 6, 8), normal(1, 2, 6, 8), normal(4, 6) > 0)
case(
    "Attention",
    normal(1, 4, 4, 8),
    normal(1, 2, 6, 8),
    normal(1, 2, 6, 8),
    normal(4, 6),
    is_causal=[None, 1],
)
case(
    "RotaryEmbedding",
    normal(1, 2, 4, 8),
    normal(9, 4),
    normal(9, 4),
    array([[0, 1, 2, 3]]),
    interleaved=[None, 1],
)
case("TensorScatter", normal(1, 2, 5, 3), normal(1, 2, 2, 3), array([1]))
