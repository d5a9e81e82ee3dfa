"""Sort, rank and count by comparing every pair of elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.rewriting.portable.common import axis_of, is_chosen, lowers, torch, total

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.rewriting.lowering import LoweringContext


def _order(x: Tensor, dim: int, count: int, descending: bool) -> tuple[Tensor, Tensor]:
    """The ``count`` smallest or largest elements along a dimension, and where they are.

    An element's place in the order is how many come before it: smaller ones, and equal ones in
    front of it. NaN is larger than all other numbers.
    """
    if not x.ndim:
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    rows = x.movedim(dim, -1)
    size = rows.shape[-1]
    keys = rows.to(torch.int64) if x.dtype is torch.bool else rows
    own, other = keys.unsqueeze(-1), keys.unsqueeze(-2)
    before, tied = (other > own) if descending else (other < own), other == own
    if x.dtype.is_floating_point:
        first, second = (other, own) if descending else (own, other)
        before = before | ((first != first) & (second == second))
        tied = tied | ((other != other) & (own != own))
    places = torch.arange(size, device=x.device)
    in_front = places < places.unsqueeze(-1)
    ranks = (before | (tied & in_front)).sum(-1)
    chosen = torch.arange(count, device=x.device).unsqueeze(-1) == ranks.unsqueeze(-2)
    values = total(torch.where(chosen, rows.unsqueeze(-2), rows.new_zeros(())), -1)
    found = torch.where(chosen, places, 0).sum(-1)
    return values.movedim(-1, dim), found.movedim(-1, dim)


def _size(x: Tensor, dim: int) -> int:
    return x.shape[dim] if x.ndim else 1


@lowers("sort.default")
def sort(
    ctx: LoweringContext, x: Tensor, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    return _order(x, dim, _size(x, dim), descending)


@lowers("sort.stable", open_sizes=True)
def stable_sort(
    ctx: LoweringContext,
    x: Tensor,
    *,
    stable: bool | None = None,
    dim: int = -1,
    descending: bool = False,
) -> tuple[Tensor, Tensor]:
    """Sort: ONNX's ``TopK``, for one, keeps the order of equal elements in any case."""
    return x.sort(dim, descending)


@lowers("topk")
def topk(
    ctx: LoweringContext, x: Tensor, k: int, dim: int = -1, largest: bool = True, *_: Any, **__: Any
) -> tuple[Tensor, Tensor]:
    return _order(x, dim, k, largest)


@lowers("kthvalue", open_sizes=True)
def kthvalue(
    ctx: LoweringContext, x: Tensor, k: int, dim: int = -1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    value, place = x.sort(stable=True, dim=dim)
    if not x.ndim:
        return value, place
    value, place = value.narrow(dim, k - 1, 1), place.narrow(dim, k - 1, 1)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


@lowers("median.dim", open_sizes=True)
def median_dim(
    ctx: LoweringContext, x: Tensor, dim: int, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """NaN, and the first place with one, where there is one."""
    value, place = kthvalue(ctx, x, (_size(x, dim) + 1) // 2, dim, keepdim)
    if not x.dtype.is_floating_point:
        return value, place
    top, first = torch.max(x, dim, keepdim)
    return torch.where(top != top, top, value), torch.where(top != top, first, place)


@lowers("median.default", open_sizes=True)
def median(ctx: LoweringContext, x: Tensor) -> Tensor:
    return median_dim(ctx, x.reshape(-1), 0)[0]


@lowers("mode")
def mode(
    ctx: LoweringContext, x: Tensor, dim: int = -1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """The smallest of those that are there most often, and its last place; of no NaN."""
    if not x.ndim:
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    rows = x.movedim(dim, -1)
    counts = (rows.unsqueeze(-1) == rows.unsqueeze(-2)).sum(-1)
    is_top = counts == counts.amax(-1, keepdim=True)
    keys = rows.to(torch.int64) if x.dtype is torch.bool else rows
    largest = keys.amax(-1, keepdim=True)
    value = torch.where(is_top, keys, largest).amin(-1, keepdim=True).to(x.dtype)
    places = torch.arange(rows.shape[-1], device=x.device)
    place = torch.where(rows == value, places, -1).amax(-1, keepdim=True)
    value, place = value.movedim(-1, dim), place.movedim(-1, dim)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


@lowers("argmax")
def argmax(
    ctx: LoweringContext, x: Tensor, dim: int | None = None, keepdim: bool = False
) -> Tensor:
    return _place_of(x, torch.amax, dim, keepdim)[1]


@lowers("argmin")
def argmin(
    ctx: LoweringContext, x: Tensor, dim: int | None = None, keepdim: bool = False
) -> Tensor:
    return _place_of(x, torch.amin, dim, keepdim)[1]


@lowers("max.dim")
def max_dim(
    ctx: LoweringContext, x: Tensor, dim: int, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    return _place_of(x, torch.amax, dim, keepdim)


@lowers("min.dim")
def min_dim(
    ctx: LoweringContext, x: Tensor, dim: int, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    return _place_of(x, torch.amin, dim, keepdim)


def _place_of(x: Tensor, extreme: Any, dim: int | None, keepdim: bool) -> tuple[Tensor, Tensor]:
    """The extreme, and the first place along a dimension where it, or NaN, is."""
    if not x.ndim:
        return x.clone(), torch.zeros((), dtype=torch.int64, device=x.device)
    shape = [1] * x.ndim if dim is None and keepdim else None
    x, axis = (x.reshape(-1), 0) if dim is None else (x, axis_of(x, dim))
    rows, size = x.movedim(axis, -1), x.shape[axis]
    best = extreme(rows, -1, keepdim=True)
    is_there = rows == best
    if x.dtype.is_floating_point:
        is_there = is_there | (rows != rows)
    place = torch.where(is_there, torch.arange(size, device=x.device), size).amin(-1, keepdim=True)
    values, places = best.movedim(-1, axis), place.movedim(-1, axis)
    if shape is not None:
        return values.reshape(shape), places.reshape(shape)
    return (values, places) if keepdim and dim is not None else (
        values.squeeze(axis), places.squeeze(axis)
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
    x: Any,
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
    """Count the boundaries in front of each number; for NaN those are all."""
    x = x.unsqueeze(-1)
    behind = (boundaries > x) if right else (boundaries >= x)
    return behind.logical_not().sum(-1).to(torch.int32 if out_int32 else torch.int64)


@lowers("histc")
def histc(ctx: LoweringContext, x: Tensor, bins: int = 100, min: Any = 0, max: Any = 0) -> Tensor:
    low, high = (x.amin(), x.amax()) if min == max else (x.new_full((), min), x.new_full((), max))
    is_point = low == high
    low, high = torch.where(is_point, low - 1, low), torch.where(is_point, high + 1, high)
    flat = x.reshape(-1)
    places = ((flat - low) * (bins / (high - low))).floor().clamp(max=bins - 1)
    is_inside = (flat >= low) & (flat <= high)
    return (is_chosen(places, bins) & is_inside.unsqueeze(-1)).sum(0).to(x.dtype)
