"""Sums, means and extremes along dimensions, and what is made of them."""

# ruff: noqa: D103 - each function writes the operator whose name it carries
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from enginebay_ncnn.dialect.arithmetic import flat, write_mul, write_sub
from enginebay_ncnn.dialect.layout import (
    MAX_RANK,
    as_three,
    axis_of,
    is_front,
    reshape,
    write_permute,
)
from enginebay_ncnn.dialect.values import Value, as_float, count_of, emit

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


def _reduce(
    function: Callable[..., Tensor], x: Value, dim: Any = None, keepdim: bool = False
) -> Value:
    """Reduce over dimensions of a value of any rank."""
    x = as_float(x)
    shape = x.shape
    if dim is None or dim == []:
        whole = emit(lambda t: function(t, 0, False), reshape(x, (count_of(x),)))
        return reshape(whole, [1] * len(shape)) if keepdim else whole
    dims = sorted({axis_of(x, axis) for axis in ([dim] if isinstance(dim, int) else dim)})
    if x.ndim <= MAX_RANK and x.ndim and not is_front(x, dims[0]):
        return emit(lambda t: function(t, dims, keepdim), x)
    kept = [axis for axis in range(x.ndim) if axis not in dims]
    rows = write_permute(x, [*kept, *dims]) if x.ndim else x
    rows = reshape(rows, (1, math.prod(shape[axis] for axis in kept), -1))
    sizes = [1 if axis in dims else n for axis, n in enumerate(shape) if keepdim or axis in kept]
    return reshape(emit(lambda t: function(t, [2], False), rows), sizes)


def write_sum(x: Value, dim: Any = None, keepdim: bool = False, **_: Any) -> Value:
    return _reduce(torch.sum, x, dim, keepdim)


def write_mean(x: Value, dim: Any = None, keepdim: bool = False, **_: Any) -> Value:
    return _reduce(torch.mean, x, dim, keepdim)


def write_amax(x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return _reduce(torch.amax, x, dim, keepdim)


def write_amin(x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return _reduce(torch.amin, x, dim, keepdim)


def write_prod(x: Value, dim: int | None = None, keepdim: bool = False, **_: Any) -> Value:
    def product(x: Tensor, dims: Any, keepdim: bool) -> Tensor:
        (axis,) = [dims] if isinstance(dims, int) else dims
        return torch.prod(x, axis, keepdim)

    return _reduce(product, x, dim, keepdim)


def write_linalg_vector_norm(
    x: Value, p: float = 2, dim: Any = None, keepdim: bool = False, **_: Any
) -> Value:
    if p == 2:
        return flat(torch.sqrt, write_sum(write_mul(x, x), dim, keepdim))
    if p == 1:
        return write_sum(flat(torch.abs, x), dim, keepdim)
    if p == math.inf:
        return write_amax(flat(torch.abs, x), dim, keepdim)
    total = write_sum(flat(lambda t: t.abs() ** p, x), dim, keepdim)
    return flat(lambda t: t ** (1 / p), total)


def write_softmax(x: Value, dim: int, *_: Any, apart: bool = False, **__: Any) -> Value:
    """A softmax.

    Args:
        x: The value.
        dim: The dimension.
        apart: True if it may not look to pnnx like the middle of an attention, which pnnx makes
            one layer of: some of these it writes wrongly, and on some it ends.
    """
    dim = axis_of(x, dim)
    if x.ndim < MAX_RANK or (x.ndim == MAX_RANK and not apart):
        return emit(lambda t: t.softmax(dim), x)
    return reshape(emit(lambda t: t.softmax(1), as_three(x, dim)), x.shape)


def write_var(
    x: Value,
    dim: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    correction: float | None = None,
) -> Value:
    dims = list(range(x.ndim)) if not dim and dim != 0 else [dim] if isinstance(dim, int) else dim
    correction = float(unbiased) if correction is None else correction
    count = math.prod(x.shape[axis] for axis in dims)
    deviation = write_sub(x, write_mean(x, dims, True))
    total = write_mean(write_mul(deviation, deviation), dims, keepdim)
    return write_mul(total, count / (count - correction))
