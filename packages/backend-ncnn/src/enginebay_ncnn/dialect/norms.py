"""Normalisations, with a leading dimension of one where ncnn looks for a batch."""

# ruff: noqa: D103 - each function writes the operator whose name it carries
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from enginebay_ncnn.dialect.arithmetic import flat, write_add, write_mul, write_sub
from enginebay_ncnn.dialect.layout import reshape
from enginebay_ncnn.dialect.values import Value, count_of, emit, is_constant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


def write_layer_norm(
    x: Value,
    shape: Sequence[int],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Value:
    sizes = x.shape
    count = math.prod(shape)
    rows = reshape(x, (1, math.prod(sizes) // count, count))
    constant_affine = all(each is None or is_constant(each) for each in (weight, bias))
    if constant_affine:
        weight, bias = (
            each if each is None else reshape(each, (count,)) for each in (weight, bias)
        )
        return reshape(_layer_norm(rows, weight, _bias_beside(weight, bias), eps), sizes)
    result = reshape(_layer_norm(rows, None, None, eps), sizes)
    result = result if weight is None else write_mul(result, weight)
    return result if bias is None else write_add(result, bias)


def _bias_beside(weight: Value | None, bias: Value | None) -> Value | None:
    """The bias, or zeros where there is a weight alone: pnnx knows both or neither."""
    if weight is None or bias is not None:
        return bias
    return torch.zeros(weight.shape)


def _layer_norm(rows: Value, weight: Value | None, bias: Value | None, eps: float) -> Value:
    def norm(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        return functional.layer_norm(x, (rows.shape[-1],), weight, bias, eps)

    return emit(norm, rows, weight, bias)


def write_native_batch_norm_legit_no_training(
    x: Value,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    if x.ndim > 2 and x.shape[0] == 1:  # pnnx folds it into a convolution
        rest = (weight, bias, mean, variance, False, momentum, eps, False)
        found = emit(lambda t: torch.ops.aten.batch_norm(t, *rest), x)
    else:
        scale = (variance + eps).rsqrt() * (1.0 if weight is None else weight)
        found = _affine(x, scale, (0.0 if bias is None else bias) - mean * scale)
    return found, torch.zeros(0), torch.zeros(0)


def _affine(x: Value, scale: Value | None, shift: Value | None) -> Value:
    """A factor and a summand for each channel."""
    shape = (-1, *[1] * (x.ndim - 2))
    x = x if scale is None else write_mul(x, reshape(scale, shape))
    return x if shift is None else write_add(x, reshape(shift, shape))


def write_group_norm(
    x: Value,
    groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Value:
    sizes = x.shape
    if sizes[0] == 1 and x.ndim > 2:
        bias = _bias_beside(weight, bias)
        return emit(lambda t, w, b: functional.group_norm(t, groups, w, b, eps), x, weight, bias)
    rows = reshape(x, (1, sizes[0] * groups, math.prod(sizes[1:]) // groups))
    return _affine(reshape(_layer_norm(rows, None, None, eps), sizes), weight, bias)


def write_instance_norm(
    x: Value,
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
        return write_native_batch_norm_legit_no_training(x, *rest)[0]
    if x.shape[0] == 1 and x.ndim == 4:
        options = (None, None, weight, bias, True, momentum, eps)
        return emit(lambda t: functional.instance_norm(t, *options), x)
    return write_group_norm(x, x.shape[1], weight, bias, eps)


def write_prelu(x: Value, weight: Value) -> Value:
    if x.shape[:1] == (1,) and x.ndim > 2 and is_constant(weight):
        return emit(functional.prelu, x, reshape(weight, (count_of(weight),)))
    if x.ndim > 1:
        weight = reshape(weight, (-1, *[1] * (x.ndim - 2)))
    below = write_mul(flat(lambda t: functional.relu(-t), x), weight)
    return write_sub(flat(functional.relu, x), below)


write_prelu_kernel = write_prelu
