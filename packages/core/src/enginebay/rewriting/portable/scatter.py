"""Writes to places: of several to one place the last one stays, or all are combined."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from enginebay.rewriting.portable.common import axis_of, is_chosen, lowers, spread, torch
from enginebay.rewriting.portable.gather import used_places

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from enginebay.rewriting.lowering import LoweringContext


def _last(index: Tensor, size: int) -> Tensor:
    """``[..., size]``: which of the writes in the last dimension stays there; −1 for none."""
    count = index.shape[-1]
    order = torch.arange(count, device=index.device).unsqueeze(-1)
    if not count:
        return torch.full((*index.shape[:-1], size), -1, device=index.device)
    return torch.where(is_chosen(index, size), order, -1).amax(-2)


def _whole(x: Tensor, dim: int, index: Tensor, write: Callable[[Tensor], Tensor]) -> Tensor:
    """Write to the front part of the other dimensions that the index spans; the rest stays."""
    for axis, size in enumerate(index.shape):
        if axis != dim and size < x.shape[axis]:
            front = _whole(x.narrow(axis, 0, size), dim, index, write)
            return torch.cat([front, x.narrow(axis, size, x.shape[axis] - size)], axis)
    return write(x.movedim(dim, -1)).movedim(-1, dim)


def _rows(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """A source as far as its index spans, the dimension last."""
    for axis, size in enumerate(index.shape):
        x = x.narrow(axis, 0, size)
    return x.movedim(dim, -1)


def _scatter(
    x: Tensor, dim: int, index: Tensor, source: Tensor, combine: Callable[..., Tensor]
) -> Tensor:
    """Combine each row with what goes to each of its places."""
    if not x.ndim or not index.ndim:
        one = _scatter(x.reshape(-1), 0, index.reshape(-1), source.reshape(-1), combine)
        return one.reshape(x.shape)
    dim = axis_of(x, dim)
    if not index.numel():
        return x.clone()
    places, rows = index.movedim(dim, -1), _rows(source, dim, index)
    return _whole(x, dim, index, lambda x: combine(x, places, rows))


def _replaced(x: Tensor, places: Tensor, rows: Tensor) -> Tensor:
    last = _last(places, x.shape[-1])
    return torch.where(last >= 0, rows.gather(-1, last.clamp(min=0)), x)


def _added(x: Tensor, places: Tensor, rows: Tensor) -> Tensor:
    if x.dtype is torch.bool:
        return x | _added(x.to(torch.int64) * 0, places, rows.to(torch.int64)).to(torch.bool)
    chosen = is_chosen(places, x.shape[-1])
    return x + torch.where(chosen, rows.unsqueeze(-1), 0).sum(-2, dtype=x.dtype)


def _like(x: Tensor, index: Tensor, value: Any) -> Tensor:
    return torch.full(index.shape, value, dtype=x.dtype, device=x.device)


@lowers("scatter.src")
def scatter(ctx: LoweringContext, x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return _scatter(x, dim, index, src, _replaced)


@lowers("scatter.value")
def scatter_value(ctx: LoweringContext, x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    return _scatter(x, dim, index, _like(x, index, value), _replaced)


@lowers("scatter_add")
def scatter_add(ctx: LoweringContext, x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return _scatter(x, dim, index, src, _added)


@lowers("scatter.reduce", "scatter.value_reduce")
def scatter_and_reduce(
    ctx: LoweringContext, x: Tensor, dim: int, index: Tensor, src: Any, *, reduce: str
) -> Tensor:
    src = src if isinstance(src, torch.Tensor) else _like(x, index, src)
    return torch.scatter_reduce(x, dim, index, src, "sum" if reduce == "add" else "prod")


@lowers("scatter_reduce.two")
def scatter_reduce(
    ctx: LoweringContext,
    x: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    def combine(x: Tensor, places: Tensor, rows: Tensor) -> Tensor:
        chosen = is_chosen(places, x.shape[-1])
        count = chosen.sum(-2)
        start = x if include_self else torch.where(count > 0, _neutral(reduce, x), x)
        if reduce in ("amax", "amin"):
            extreme, two = (
                (torch.amax, torch.maximum) if reduce == "amax" else (torch.amin, torch.minimum)
            )
            return two(
                start, extreme(torch.where(chosen, rows.unsqueeze(-1), _neutral(reduce, x)), -2)
            )
        if reduce == "prod":
            return start * torch.where(chosen, rows.unsqueeze(-1), 1).prod(-2, dtype=x.dtype)
        added = _added(start, places, rows)
        if reduce == "sum":
            return added
        count = (count + 1) if include_self else count.clamp(min=1)
        if x.dtype.is_floating_point:
            return added / count
        return torch.div(added, count, rounding_mode="floor").to(x.dtype)

    return _scatter(x, dim, index, src, combine)


def _neutral(reduce: str, x: Tensor) -> Tensor:
    """What a reduction does not change anything with."""
    if reduce in ("amax", "amin"):
        is_float = x.dtype.is_floating_point
        lowest = -math.inf if is_float else torch.iinfo(x.dtype).min
        highest = math.inf if is_float else torch.iinfo(x.dtype).max
        return x.new_full((), lowest if reduce == "amax" else highest)
    return x.new_full((), 1 if reduce == "prod" else 0)


def _put(x: Tensor, places: Tensor, rows: Tensor, accumulate: bool) -> Tensor:
    """Write rows ``[count, …]`` to places of the first dimension."""
    size = x.shape[0]
    if not places.numel():
        return x.clone()
    shape = (size, *[1] * (x.ndim - 1))
    if accumulate:
        put = spread(is_chosen(places, size).t(), rows.reshape(rows.shape[0], -1)).reshape(x.shape)
        return (x | put) if x.dtype is torch.bool else x + put
    last = _last(places, size)
    return torch.where((last >= 0).reshape(shape), rows.index_select(0, last.clamp(min=0)), x)


def _along(x: Tensor, dim: int, index: Tensor, source: Tensor, *, accumulate: bool) -> Tensor:
    if not x.ndim:
        found = _put(x.reshape(1), index.reshape(-1), source.reshape(-1), accumulate)
        return found.reshape(())
    front, rows = x.movedim(dim, 0), source.reshape(source.shape or (1,)).movedim(dim, 0)
    return _put(front, index.reshape(-1), rows, accumulate).movedim(0, dim)


@lowers("index_add")
def index_add(
    ctx: LoweringContext, x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1
) -> Tensor:
    return _along(x, dim, index, source if alpha == 1 else source * alpha, accumulate=True)


@lowers("index_copy")
def index_copy(ctx: LoweringContext, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return _along(x, dim, index, source, accumulate=False)


@lowers("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(ctx: LoweringContext, x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    if not x.ndim:
        return _number(x, value)
    touched = is_chosen(index.reshape(-1), x.shape[dim]).sum(0) > 0
    shape = [x.shape[dim] if axis == axis_of(x, dim) else 1 for axis in range(x.ndim)]
    return torch.where(touched.reshape(shape), _number(x, value), x)


def _number(x: Tensor, value: Any) -> Tensor:
    return value.to(x.dtype) if isinstance(value, torch.Tensor) else x.new_full((), value)


@lowers("index_put")
def index_put(
    ctx: LoweringContext,
    x: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool = False,
) -> Tensor:
    last = indices[-1]
    if values.numel() == 1 and not accumulate and last is not None and last.dtype is torch.bool:
        front = len(indices) - 1
        if not any(each is not None for each in indices[:-1]):
            mask = last.reshape(*last.shape, *[1] * (x.ndim - front - last.ndim))
            return torch.where(mask, values.reshape(()), x)
    used, places = used_places(ctx, x, indices)
    order = [*used, *(dim for dim in range(x.ndim) if dim not in used)]
    sizes = [x.shape[dim] for dim in order]
    count, rest = math.prod(sizes[: len(used)]), sizes[len(used) :]
    neighbours = used == list(range(used[0], used[-1] + 1))
    before = rest[: used[0]] if neighbours else []
    rows = values.expand(*before, *places.shape, *rest[len(before) :])
    # What the indices span comes first, as in the table.
    rows = rows.permute(
        *range(len(before), len(before) + places.ndim),
        *range(len(before)),
        *range(len(before) + places.ndim, rows.ndim),
    ).reshape(places.numel(), *rest)
    table = x.permute(order).reshape(count, *rest)
    result = _put(table, places.reshape(-1), rows, accumulate).reshape(sizes)
    return result.permute([order.index(dim) for dim in range(x.ndim)])


@lowers("slice_scatter")
def slice_scatter(
    ctx: LoweringContext,
    x: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    dim = axis_of(x, dim)
    first, last, _ = slice(start, end).indices(x.shape[dim])
    if step == 1:
        last = max(first, last)
        behind = x.narrow(dim, last, x.shape[dim] - last)
        return torch.cat([x.narrow(dim, 0, first), src, behind], dim)
    places = torch.arange(first, max(first, last), step, device=x.device)
    return x.index_copy(dim, places, src)


@lowers("select_scatter", open_sizes=True)
def select_scatter(ctx: LoweringContext, x: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    dim = axis_of(x, dim)
    place = index + x.shape[dim] if index < 0 else index
    behind = x.narrow(dim, place + 1, x.shape[dim] - place - 1)
    return torch.cat([x.narrow(dim, 0, place), src.unsqueeze(dim), behind], dim)


@lowers("diagonal_scatter")
def diagonal_scatter(
    ctx: LoweringContext, x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """Write to the places of the diagonal in the two dimensions laid flat."""
    moved = x.movedim((dim1, dim2), (-2, -1))
    rows, columns = moved.shape[-2:]
    places = torch.arange(rows * columns, device=x.device).reshape(rows, columns)
    flat = moved.reshape(*moved.shape[:-2], rows * columns)
    found = flat.index_copy(-1, places.diagonal(offset), src)
    return found.reshape(moved.shape).movedim((-2, -1), (dim1, dim2))
