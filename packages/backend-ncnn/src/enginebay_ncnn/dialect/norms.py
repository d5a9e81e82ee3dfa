"""Express normalisations with ncnn's layers.

pnnx treats the first dimension of an operand as the batch. So a normalisation layer reads only
operands whose first dimension has size 1; others are reshaped, or computed by elementwise layers.
"""

# ruff: noqa: D103 - each function writes the operator whose name it carries
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from enginebay_ncnn.dialect.arithmetic import apply_unary, write_add, write_mul, write_sub
from enginebay_ncnn.dialect.layout import reshape
from enginebay_ncnn.dialect.values import Value, element_count, emit_call, is_constant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor


def write_layer_norm(
    operand: Value,
    shape: Sequence[int],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    *_: object,
) -> Value:
    sizes = operand.shape
    count = math.prod(shape)
    rows = reshape(operand, (1, math.prod(sizes) // count, count))
    constant_affine = all(
        parameter is None or is_constant(parameter) for parameter in (weight, bias)
    )
    if constant_affine:
        weight, bias = (
            parameter if parameter is None else reshape(parameter, (count,))
            for parameter in (weight, bias)
        )
        return reshape(_emit_layer_norm(rows, weight, _bias_or_zeros(weight, bias), eps), sizes)
    result = reshape(_emit_layer_norm(rows, None, None, eps), sizes)
    result = result if weight is None else write_mul(result, weight)
    return result if bias is None else write_add(result, bias)


def _bias_or_zeros(weight: Value | None, bias: Value | None) -> Value | None:
    if weight is None or bias is not None:
        return bias
    return torch.zeros(weight.shape)  # pnnx reads a weight and a bias, or neither


def _emit_layer_norm(rows: Value, weight: Value | None, bias: Value | None, eps: float) -> Value:
    def norm(operand: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        return functional.layer_norm(operand, (rows.shape[-1],), weight, bias, eps)

    return emit_call(norm, rows, weight, bias)


def write_native_batch_norm_legit_no_training(
    operand: Value,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    if (
        operand.ndim > 2 and operand.shape[0] == 1
    ):  # as one layer, which pnnx folds into a convolution
        rest = (weight, bias, mean, variance, False, momentum, eps, False)
        result = emit_call(lambda t: torch.ops.aten.batch_norm(t, *rest), operand)
    else:
        scale = (variance + eps).rsqrt() * (1.0 if weight is None else weight)
        result = _scale_and_shift(operand, scale, (0.0 if bias is None else bias) - mean * scale)
    return result, torch.zeros(0), torch.zeros(0)


def _scale_and_shift(operand: Value, scale: Value | None, shift: Value | None) -> Value:
    shape = (-1, *[1] * (operand.ndim - 2))
    operand = operand if scale is None else write_mul(operand, reshape(scale, shape))
    return operand if shift is None else write_add(operand, reshape(shift, shape))


def write_group_norm(
    operand: Value,
    groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    *_: object,
) -> Value:
    sizes = operand.shape
    if sizes[0] == 1 and operand.ndim > 2:
        bias = _bias_or_zeros(weight, bias)
        return emit_call(
            lambda t, w, b: functional.group_norm(t, groups, w, b, eps), operand, weight, bias
        )
    rows = reshape(operand, (1, sizes[0] * groups, math.prod(sizes[1:]) // groups))
    return _scale_and_shift(reshape(_emit_layer_norm(rows, None, None, eps), sizes), weight, bias)


def write_instance_norm(
    operand: Value,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Any,
    variance: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    *_: bool,
) -> Value:
    if not use_input_stats:
        rest = (weight, bias, mean, variance, momentum, eps)
        return write_native_batch_norm_legit_no_training(operand, *rest)[0]
    if operand.shape[0] == 1 and operand.ndim == 4:
        options = (None, None, weight, bias, True, momentum, eps)
        return emit_call(lambda t: functional.instance_norm(t, *options), operand)
    return write_group_norm(operand, operand.shape[1], weight, bias, eps)


def write_prelu(operand: Value, weight: Value) -> Value:
    if operand.shape[:1] == (1,) and operand.ndim > 2 and is_constant(weight):
        return emit_call(functional.prelu, operand, reshape(weight, (element_count(weight),)))
    if operand.ndim > 1:
        weight = reshape(weight, (-1, *[1] * (operand.ndim - 2)))
    negative = write_mul(apply_unary(lambda t: functional.relu(-t), operand), weight)
    return write_sub(apply_unary(functional.relu, operand), negative)


#: The writers of this file by the names of their operators.
WRITERS: dict[str, Callable[..., Any]] = {
    "layer_norm": write_layer_norm,
    "group_norm": write_group_norm,
    "instance_norm": write_instance_norm,
    "prelu": write_prelu,
    "_prelu_kernel": write_prelu,
    "_native_batch_norm_legit_no_training": write_native_batch_norm_legit_no_training,
}
