"""Lowerings of sort, topk, argmax, histc and similar operators by comparing pairs of elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay_rewriters.portable.common import axis_of, lowers, one_hot_mask, sum_one_hot, torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from enginebay.authors import LoweringContext


def _sort_by_rank(x: Tensor, dim: int, count: int, descending: bool) -> tuple[Tensor, Tensor]:
    """Return ``count`` elements along a dimension in sorted order, and their indices.

    The elements are the ``count`` largest if ``descending``, otherwise the ``count`` smallest.
    """
    # An element's rank is the number of smaller elements plus the number of equal elements before
    # it. As in torch, NaN is larger than all other numbers.
    if not x.ndim:
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    rows = x.movedim(dim, -1)
    size = rows.shape[-1]
    # ONNX's Less and Greater do not accept bools.
    keys = rows.to(torch.int64) if x.dtype is torch.bool else rows
    element, other = keys.unsqueeze(-1), keys.unsqueeze(-2)
    is_before, is_tied = (other > element) if descending else (other < element), other == element
    if x.dtype.is_floating_point:
        # x != x is true only for NaN.
        larger, smaller = (other, element) if descending else (element, other)
        is_before = is_before | ((larger != larger) & (smaller == smaller))
        is_tied = is_tied | ((other != other) & (element != element))
    positions = torch.arange(size, device=x.device)
    is_earlier = positions < positions.unsqueeze(-1)
    ranks = (is_before | (is_tied & is_earlier)).sum(-1)
    chosen = torch.arange(count, device=x.device).unsqueeze(-1) == ranks.unsqueeze(-2)
    values = sum_one_hot(torch.where(chosen, rows.unsqueeze(-2), rows.new_zeros(())), -1)
    result = torch.where(chosen, positions, 0).sum(-1)
    return values.movedim(-1, dim), result.movedim(-1, dim)


def _dim_size(x: Tensor, dim: int) -> int:
    return x.shape[dim] if x.ndim else 1


@lowers("sort.default")
def sort(
    ctx: LoweringContext, x: Tensor, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    return _sort_by_rank(x, dim, _dim_size(x, dim), descending)


@lowers("sort.stable", open_sizes=True)
def stable_sort(
    ctx: LoweringContext,
    x: Tensor,
    *,
    stable: bool | None = None,
    dim: int = -1,
    descending: bool = False,
) -> tuple[Tensor, Tensor]:
    # The lowering of sort is stable, and so is ONNX's TopK.
    return x.sort(dim, descending)


@lowers("topk")
def topk(
    ctx: LoweringContext,
    x: Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    *_: object,
    **__: object,
) -> tuple[Tensor, Tensor]:
    return _sort_by_rank(x, dim, k, largest)


@lowers("kthvalue", open_sizes=True)
def kthvalue(
    ctx: LoweringContext, x: Tensor, k: int, dim: int = -1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    value, position = x.sort(stable=True, dim=dim)
    if not x.ndim:
        return value, position
    value, position = value.narrow(dim, k - 1, 1), position.narrow(dim, k - 1, 1)
    return (value, position) if keepdim else (value.squeeze(dim), position.squeeze(dim))


@lowers("median.dim", open_sizes=True)
def median_dim(
    ctx: LoweringContext, x: Tensor, dim: int, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    value, position = kthvalue(ctx, x, (_dim_size(x, dim) + 1) // 2, dim, keepdim)
    if not x.dtype.is_floating_point:
        return value, position
    # The median of numbers with a NaN is NaN, at the first one's position; max finds it.
    top, first = torch.max(x, dim, keepdim)
    return torch.where(top != top, top, value), torch.where(top != top, first, position)


@lowers("median.default", open_sizes=True)
def median(ctx: LoweringContext, x: Tensor) -> Tensor:
    return median_dim(ctx, x.reshape(-1), 0)[0]


@lowers("mode")
def mode(
    ctx: LoweringContext, x: Tensor, dim: int = -1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the most frequent element and its last index; ``x`` must not contain NaN.

    Of equally frequent elements, the smallest is returned.
    """
    if not x.ndim:
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    rows = x.movedim(dim, -1)
    counts = (rows.unsqueeze(-1) == rows.unsqueeze(-2)).sum(-1)
    is_top = counts == counts.amax(-1, keepdim=True)
    # ONNX's ReduceMax and ReduceMin accept bools only from opset 20 on.
    keys = rows.to(torch.int64) if x.dtype is torch.bool else rows
    largest = keys.amax(-1, keepdim=True)
    value = torch.where(is_top, keys, largest).amin(-1, keepdim=True).to(x.dtype)
    positions = torch.arange(rows.shape[-1], device=x.device)
    position = torch.where(rows == value, positions, -1).amax(-1, keepdim=True)
    value, position = value.movedim(-1, dim), position.movedim(-1, dim)
    return (value, position) if keepdim else (value.squeeze(dim), position.squeeze(dim))


@lowers("argmax")
def argmax(
    ctx: LoweringContext, x: Tensor, dim: int | None = None, keepdim: bool = False
) -> Tensor:
    return _find_extreme(x, torch.amax, dim, keepdim)[1]


@lowers("argmin")
def argmin(
    ctx: LoweringContext, x: Tensor, dim: int | None = None, keepdim: bool = False
) -> Tensor:
    return _find_extreme(x, torch.amin, dim, keepdim)[1]


@lowers("max.dim")
def max_dim(
    ctx: LoweringContext, x: Tensor, dim: int, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    return _find_extreme(x, torch.amax, dim, keepdim)


@lowers("min.dim")
def min_dim(
    ctx: LoweringContext, x: Tensor, dim: int, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    return _find_extreme(x, torch.amin, dim, keepdim)


def _find_extreme(
    x: Tensor, reduce: Callable[..., Tensor], dim: int | None, keepdim: bool
) -> tuple[Tensor, Tensor]:
    """Return the largest or smallest element, and its first index.

    Without ``dim``, the result is for the flattened tensor. A NaN counts as the extreme element.
    """
    if not x.ndim:
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    shape = [1] * x.ndim if dim is None and keepdim else None
    x, axis = (x.reshape(-1), 0) if dim is None else (x, axis_of(x, dim))
    rows, size = x.movedim(axis, -1), x.shape[axis]
    best = reduce(rows, -1, keepdim=True)
    is_best = rows == best
    if x.dtype.is_floating_point:
        # The extreme of a row with a NaN is NaN, which is not equal to itself.
        is_best = is_best | (rows != rows)
    positions = torch.arange(size, device=x.device)
    position = torch.where(is_best, positions, size).amin(-1, keepdim=True)
    values, positions = best.movedim(-1, axis), position.movedim(-1, axis)
    if shape is not None:
        return values.reshape(shape), positions.reshape(shape)
    return (values, positions) if keepdim and dim is not None else (
        values.squeeze(axis), positions.squeeze(axis)
    )  # fmt: skip


@lowers("max.default")
def max_all(ctx: LoweringContext, x: Tensor) -> Tensor:
    return x.amax()


@lowers("min.default")
def min_all(ctx: LoweringContext, x: Tensor) -> Tensor:
    return x.amin()


@lowers("bucketize.Tensor", open_sizes=True)
def bucketize(
    ctx: LoweringContext,
    x: Tensor,
    boundaries: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
) -> Tensor:
    return _count_before(boundaries, x, out_int32, right)


@lowers("searchsorted.Tensor", "searchsorted.Scalar", open_sizes=True)
def searchsorted(
    ctx: LoweringContext,
    boundaries: Tensor,
    x: Tensor | float,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    if sorter is not None:
        boundaries = boundaries.gather(-1, sorter)
    if not isinstance(x, torch.Tensor):
        x = torch.full((), x, device=boundaries.device)
    if boundaries.ndim > 1:
        boundaries = boundaries.unsqueeze(-2)
    return _count_before(boundaries, x, out_int32, right or side == "right")


def _count_before(boundaries: Tensor, x: Tensor, out_int32: bool, right: bool) -> Tensor:
    """Return, for each element of ``x``, how many boundaries are smaller than it.

    If ``right``, equal boundaries are counted too. NaN is greater than all boundaries.
    """
    x = x.unsqueeze(-1)
    is_after = (boundaries > x) if right else (boundaries >= x)
    return is_after.logical_not().sum(-1).to(torch.int32 if out_int32 else torch.int64)


@lowers("histc")
def histc(
    ctx: LoweringContext, x: Tensor, bins: int = 100, min: float = 0, max: float = 0
) -> Tensor:
    low, high = (x.amin(), x.amax()) if min == max else (x.new_full((), min), x.new_full((), max))
    # torch widens an empty range by 1 on both sides.
    is_point = low == high
    low, high = torch.where(is_point, low - 1, low), torch.where(is_point, high + 1, high)
    flat = x.reshape(-1)
    positions = ((flat - low) * (bins / (high - low))).floor().clamp(max=bins - 1)
    is_inside = (flat >= low) & (flat <= high)
    return (one_hot_mask(positions, bins) & is_inside.unsqueeze(-1)).sum(0).to(x.dtype)
