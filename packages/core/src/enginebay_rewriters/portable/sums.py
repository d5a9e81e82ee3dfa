"""Lowerings of ``prod``, ``any`` and ``all``, and of cumulative operators as parallel scans."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from enginebay_rewriters.portable.common import axis_of, cat_parts, is_open, lowers, torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from enginebay.authors import LoweringContext


def _parallel_scan(
    values: list[Tensor], dim: int, combine: Callable[[list[Tensor], list[Tensor]], list[Tensor]]
) -> list[Tensor]:
    """Return the inclusive scan of ``values`` along a dimension, in log2(size) steps.

    The tensors in ``values`` are scanned together, such as numbers and their indices. ``combine``
    takes the tensors of earlier and of later elements, and returns the tensors of their results.
    """
    # Step k combines every element with the element 2ᵏ positions before it: Hillis and Steele,
    # "Data parallel algorithms", Communications of the ACM 29(12), 1986.
    size = values[0].shape[dim] if values[0].ndim else 1
    step = 1
    while step < size:
        before = [each.narrow(dim, 0, size - step) for each in values]
        after = [each.narrow(dim, step, size - step) for each in values]
        both = combine(before, after)
        values = [
            cat_parts([each.narrow(dim, 0, step), new], dim)
            for each, new in zip(values, both, strict=True)
        ]
        step *= 2
    return values


def _to_sum_dtype(x: Tensor, dtype: torch.dtype | None) -> Tensor:
    # torch sums integers in int64.
    default = x.dtype if x.dtype.is_floating_point or x.is_complex() else torch.int64
    return x.to(dtype or default, copy=True)


@lowers("cumsum", open_sizes=True)
def cumsum(
    ctx: LoweringContext, x: Tensor, dim: int, *, dtype: torch.dtype | None = None
) -> Tensor:
    if is_open(x, dim):
        original: Tensor = ctx.origin_op(x, dim, dtype=dtype)
        return original
    return _parallel_scan([_to_sum_dtype(x, dtype)], axis_of(x, dim), lambda a, b: [a[0] + b[0]])[0]


@lowers("cumprod", open_sizes=True)
def cumprod(
    ctx: LoweringContext, x: Tensor, dim: int, *, dtype: torch.dtype | None = None
) -> Tensor:
    if is_open(x, dim):
        original: Tensor = ctx.origin_op(x, dim, dtype=dtype)
        return original
    return _parallel_scan([_to_sum_dtype(x, dtype)], axis_of(x, dim), lambda a, b: [a[0] * b[0]])[0]


@lowers("logcumsumexp", open_sizes=True)
def logcumsumexp(ctx: LoweringContext, x: Tensor, dim: int) -> Tensor:
    def combine(before: list[Tensor], after: list[Tensor]) -> list[Tensor]:
        # log(eᵃ + eᵇ) = max + log(1 + e^(min − max)), which does not overflow.
        top, low = torch.maximum(before[0], after[0]), torch.minimum(before[0], after[0])
        gap = torch.where(top == low, 0.0, low - top)  # ∞ − ∞ would be NaN
        return [top + (gap.exp() + 1).log()]

    if is_open(x, dim):
        original: Tensor = ctx.origin_op(x, dim)
        return original
    return _parallel_scan([x.clone()], axis_of(x, dim), combine)[0]


@lowers("cummax", open_sizes=True)
def cummax(ctx: LoweringContext, x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return _running_extreme(ctx, x, dim, torch.maximum, operator.ge)


@lowers("cummin", open_sizes=True)
def cummin(ctx: LoweringContext, x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return _running_extreme(ctx, x, dim, torch.minimum, operator.le)


def _running_extreme(
    ctx: LoweringContext,
    x: Tensor,
    dim: int,
    extreme: Callable[[Tensor, Tensor], Tensor],
    wins: Callable[[Tensor, Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """Return the cumulative maximum or minimum along ``dim``, and the index where it last occurred.

    From the first NaN on, the maximum or minimum is NaN. ``extreme`` returns the larger or smaller
    of two elements. ``wins`` returns True if a later element replaces an earlier one.
    """
    if is_open(x, dim):
        original: tuple[Tensor, Tensor] = ctx.origin_op(x, dim)
        return original

    def combine(before: list[Tensor], after: list[Tensor]) -> list[Tensor]:
        newer = wins(after[0], before[0])
        if x.dtype.is_floating_point:
            newer = (newer & (before[0] == before[0])) | (after[0] != after[0])
        # maximum instead of a where for the values: engines that implement where by products would
        # turn infinities into NaN.
        return [extreme(before[0], after[0]), torch.where(newer, after[1], before[1])]

    dim = axis_of(x, dim)
    shape = [size if axis == dim else 1 for axis, size in enumerate(x.shape)]
    positions = torch.arange(x.shape[dim] if x.ndim else 1, device=x.device)
    values, at = _parallel_scan([x.clone(), positions.reshape(shape).expand(x.shape)], dim, combine)
    return values, at


@lowers("prod")
def prod(
    ctx: LoweringContext,
    x: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Multiply the first half of the dimension by the second half until one element remains."""
    x = _to_sum_dtype(x, dtype)
    if dim is None or not x.ndim:
        x, dim = x.reshape(-1), 0
    dim = axis_of(x, dim)
    while (size := x.shape[dim]) > 1:
        half = size // 2
        product = x.narrow(dim, 0, half) * x.narrow(dim, half, half)
        # If the size is odd, the last element is left for the next round.
        x = cat_parts([product, x.narrow(dim, 2 * half, 1)], dim) if size % 2 else product
    if not x.shape[dim]:
        x = torch.ones([1 if axis == dim else n for axis, n in enumerate(x.shape)], dtype=x.dtype)
    return x if keepdim else x.squeeze(dim)


@lowers("any")
def any_(
    ctx: LoweringContext, x: Tensor, dim: int | list[int] | None = None, keepdim: bool = False
) -> Tensor:
    return _match_dtype(x, _count_true(x != 0, dim, keepdim) != 0)


@lowers("all")
def all_(
    ctx: LoweringContext, x: Tensor, dim: int | list[int] | None = None, keepdim: bool = False
) -> Tensor:
    return _match_dtype(x, _count_true(x == 0, dim, keepdim) == 0)


def _count_true(x: Tensor, dim: int | list[int] | None, keepdim: bool) -> Tensor:
    return x.sum() if dim is None else x.sum(dim, keepdim)


def _match_dtype(x: Tensor, result: Tensor) -> Tensor:
    # For uint8, torch returns uint8 instead of bools.
    return result.to(torch.uint8) if x.dtype is torch.uint8 else result
