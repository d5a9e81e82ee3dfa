"""Express sums, means, minima, maxima, norms, softmax and variance with ncnn's layers."""

# ruff: noqa: D103 - each function writes the operator whose name it carries
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from enginebay_ncnn.dialect.arithmetic import apply_unary, write_mul, write_sub
from enginebay_ncnn.dialect.layout import (
    MAX_RANK,
    as_outer_dim_inner,
    may_be_batch,
    normalize_axis,
    reshape,
    write_permute,
)
from enginebay_ncnn.dialect.values import Value, as_float, element_count, emit_call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    #: One dimension or several; None and an empty list mean all.
    Dims = int | Sequence[int] | None


def _reduce_dims(
    function: Callable[..., Tensor], operand: Value, dim: Dims = None, keepdim: bool = False
) -> Value:
    operand = as_float(operand)
    shape = operand.shape
    if dim is None or dim == []:
        total = emit_call(
            lambda t: function(t, 0, False), reshape(operand, (element_count(operand),))
        )
        return reshape(total, [1] * len(shape)) if keepdim else total
    dims = sorted(
        {normalize_axis(operand, axis) for axis in ([dim] if isinstance(dim, int) else dim)}
    )
    if operand.ndim <= MAX_RANK and operand.ndim and not may_be_batch(operand, dims[0]):
        return emit_call(lambda t: function(t, dims, keepdim), operand)
    rest = [axis for axis in range(operand.ndim) if axis not in dims]
    rows = write_permute(operand, [*rest, *dims]) if operand.ndim else operand
    rows = reshape(rows, (1, math.prod(shape[axis] for axis in rest), -1))
    sizes = [1 if axis in dims else n for axis, n in enumerate(shape) if keepdim or axis in rest]
    return reshape(emit_call(lambda t: function(t, [2], False), rows), sizes)


def write_sum(operand: Value, dim: Dims = None, keepdim: bool = False, **_: object) -> Value:
    return _reduce_dims(torch.sum, operand, dim, keepdim)


def write_mean(operand: Value, dim: Dims = None, keepdim: bool = False, **_: object) -> Value:
    return _reduce_dims(torch.mean, operand, dim, keepdim)


def write_amax(operand: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return _reduce_dims(torch.amax, operand, dim, keepdim)


def write_amin(operand: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return _reduce_dims(torch.amin, operand, dim, keepdim)


def write_prod(operand: Value, dim: int | None = None, keepdim: bool = False, **_: object) -> Value:
    # torch.prod takes one dimension only.
    def product(operand: Tensor, dims: int | Sequence[int], keepdim: bool) -> Tensor:
        (axis,) = [dims] if isinstance(dims, int) else dims
        return torch.prod(operand, axis, keepdim)

    return _reduce_dims(product, operand, dim, keepdim)


def write_linalg_vector_norm(
    operand: Value, p: float = 2, dim: Dims = None, keepdim: bool = False, **_: object
) -> Value:
    if p == 2:
        return apply_unary(torch.sqrt, write_sum(write_mul(operand, operand), dim, keepdim))
    if p == 1:
        return write_sum(apply_unary(torch.abs, operand), dim, keepdim)
    if p == math.inf:
        return write_amax(apply_unary(torch.abs, operand), dim, keepdim)
    total = write_sum(apply_unary(lambda t: t.abs() ** p, operand), dim, keepdim)
    return apply_unary(lambda t: t ** (1 / p), total)


def write_softmax(
    operand: Value, dim: int, *_: object, split_attention: bool = False, **__: object
) -> Value:
    """Return the softmax of an operand along a dimension.

    Args:
        operand: The input of the softmax.
        dim: The dimension along which the results sum to 1.
        split_attention: Whether to write the softmax so that pnnx does not recognise an attention.
            pnnx fuses some attentions into a layer that computes wrong results, and crashes on
            other attentions.
    """
    dim = normalize_axis(operand, dim)
    if operand.ndim < MAX_RANK or (operand.ndim == MAX_RANK and not split_attention):
        return emit_call(lambda t: t.softmax(dim), operand)
    return reshape(
        emit_call(lambda t: t.softmax(1), as_outer_dim_inner(operand, dim)), operand.shape
    )


def write_var(
    operand: Value,
    dim: Dims = None,
    unbiased: bool = True,
    keepdim: bool = False,
    correction: float | None = None,
) -> Value:
    dims = [dim] if isinstance(dim, int) else list(dim or range(operand.ndim))
    correction = float(unbiased) if correction is None else correction
    count = math.prod(operand.shape[axis] for axis in dims)
    deviation = write_sub(operand, write_mean(operand, dims, True))
    total = write_mean(write_mul(deviation, deviation), dims, keepdim)
    return write_mul(total, count / (count - correction))


#: The writers of this file by the names of their operators.
WRITERS: dict[str, Callable[..., Any]] = {
    "sum": write_sum,
    "mean": write_mean,
    "amax": write_amax,
    "amin": write_amin,
    "prod": write_prod,
    "var": write_var,
    "linalg_vector_norm": write_linalg_vector_norm,
    "softmax": write_softmax,
    "_softmax": write_softmax,
}
