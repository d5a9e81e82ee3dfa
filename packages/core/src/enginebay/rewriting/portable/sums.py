"""Running sums, products and extremes: each step combines with what is twice as far in front."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from enginebay.rewriting.portable.common import axis_of, is_open, joined, lowers, torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from enginebay.rewriting.lowering import LoweringContext


def _scan(
    values: list[Tensor], dim: int, combine: Callable[[list[Tensor], list[Tensor]], list[Tensor]]
) -> list[Tensor]:
    """Return what ``combine`` makes of all elements up to each, in log2(size) steps."""
    size = values[0].shape[dim] if values[0].ndim else 1
    step = 1
    while step < size:
        before = [each.narrow(dim, 0, size - step) for each in values]
        own = [each.narrow(dim, step, size - step) for each in values]
        both = combine(before, own)
        values = [
            joined([each.narrow(dim, 0, step), new], dim)
            for each, new in zip(values, both, strict=True)
        ]
        step *= 2
    return values


def _accumulated(x: Tensor, dtype: torch.dtype | None) -> Tensor:
    """In the dtype of a running sum: integers become int64."""
    own = x.dtype if x.dtype.is_floating_point or x.is_complex() else torch.int64
    return x.to(dtype or own, copy=True)


@lowers("cumsum", open_sizes=True)
def cumsum(
    ctx: LoweringContext, x: Tensor, dim: int, *, dtype: torch.dtype | None = None
) -> Tensor:
    if is_open(x, dim):
        own: Tensor = ctx.origin_op(x, dim, dtype=dtype)
        return own
    return _scan([_accumulated(x, dtype)], axis_of(x, dim), lambda a, b: [a[0] + b[0]])[0]


@lowers("cumprod", open_sizes=True)
def cumprod(
    ctx: LoweringContext, x: Tensor, dim: int, *, dtype: torch.dtype | None = None
) -> Tensor:
    if is_open(x, dim):
        own: Tensor = ctx.origin_op(x, dim, dtype=dtype)
        return own
    return _scan([_accumulated(x, dtype)], axis_of(x, dim), lambda a, b: [a[0] * b[0]])[0]


@lowers("logcumsumexp", open_sizes=True)
def logcumsumexp(ctx: LoweringContext, x: Tensor, dim: int) -> Tensor:
    def combine(before: list[Tensor], own: list[Tensor]) -> list[Tensor]:
        top, low = torch.maximum(before[0], own[0]), torch.minimum(before[0], own[0])
        gap = torch.where(top == low, 0.0, low - top)  # of two infinities it would be NaN
        return [top + (gap.exp() + 1).log()]

    if is_open(x, dim):
        own: Tensor = ctx.origin_op(x, dim)
        return own
    return _scan([x.clone()], axis_of(x, dim), combine)[0]


@lowers("cummax", open_sizes=True)
def cummax(ctx: LoweringContext, x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return _running(ctx, x, dim, torch.maximum, operator.ge)


@lowers("cummin", open_sizes=True)
def cummin(ctx: LoweringContext, x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return _running(ctx, x, dim, torch.minimum, operator.le)


def _running(
    ctx: LoweringContext, x: Tensor, dim: int, extreme: Any, wins: Any
) -> tuple[Tensor, Tensor]:
    """The extreme so far, and the last place where it was; NaN beats every number."""
    if is_open(x, dim):
        own: tuple[Tensor, Tensor] = ctx.origin_op(x, dim)
        return own

    def combine(before: list[Tensor], own: list[Tensor]) -> list[Tensor]:
        newer = wins(own[0], before[0])
        if x.dtype.is_floating_point:
            newer = (newer & (before[0] == before[0])) | (own[0] != own[0])
        # Infinities cannot be chosen by products, as an engine without a choice of its own does it.
        return [extreme(before[0], own[0]), torch.where(newer, own[1], before[1])]

    dim = axis_of(x, dim)
    shape = [size if axis == dim else 1 for axis, size in enumerate(x.shape)]
    places = torch.arange(x.shape[dim] if x.ndim else 1, device=x.device)
    values, at = _scan([x.clone(), places.reshape(shape).expand(x.shape)], dim, combine)
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
    """Halve the dimension until one is left."""
    x = _accumulated(x, dtype)
    if dim is None or not x.ndim:
        x, dim = x.reshape(-1), 0
    dim = axis_of(x, dim)
    while (size := x.shape[dim]) > 1:
        half = size // 2
        product = x.narrow(dim, 0, half) * x.narrow(dim, half, half)
        x = joined([product, x.narrow(dim, 2 * half, 1)], dim) if size % 2 else product
    if not x.shape[dim]:
        x = torch.ones([1 if axis == dim else n for axis, n in enumerate(x.shape)], dtype=x.dtype)
    return x if keepdim else x.squeeze(dim)


@lowers("any")
def any_(ctx: LoweringContext, x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    return _of_dtype(x, _count(x != 0, dim, keepdim) != 0)


@lowers("all")
def all_(ctx: LoweringContext, x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    return _of_dtype(x, _count(x == 0, dim, keepdim) == 0)


def _count(x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    return x.sum() if dim is None else x.sum(dim, keepdim)


def _of_dtype(x: Tensor, found: Tensor) -> Tensor:
    """Those of uint8 are uint8 for torch."""
    return found.to(torch.uint8) if x.dtype is torch.uint8 else found
