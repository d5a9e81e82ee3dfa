"""Lowerings of operators that write by index, such as scatter and index_put.

If several values are written to the same index, the last one is used; operators that accumulate use
all of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from enginebay_rewriters.portable.common import (
    axis_of,
    lowers,
    one_hot_mask,
    sum_selected_rows,
    torch,
)
from enginebay_rewriters.portable.gather import flatten_indices

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from enginebay.authors import LoweringContext


def _last_write(index: Tensor, size: int) -> Tensor:
    """Return the position of the last write to each element; −1 for an element without a write.

    Args:
        index: The index of the element that each write changes, ``[..., count]``.
        size: The number of elements.

    Returns:
        The positions in ``index``, ``[..., size]``.
    """
    count = index.shape[-1]
    order = torch.arange(count, device=index.device).unsqueeze(-1)
    if not count:  # amax of an empty dimension is an error
        return torch.full((*index.shape[:-1], size), -1, device=index.device)
    return torch.where(one_hot_mask(index, size), order, -1).amax(-2)


def _write_spanned(x: Tensor, dim: int, index: Tensor, write: Callable[[Tensor], Tensor]) -> Tensor:
    """Return ``x`` with new values in the part to which the index can refer.

    Along ``dim``, this part contains all elements of ``x``. Along each other dimension, it contains
    the first elements, as many as the index has. ``write`` takes the part with ``dim`` moved to
    the end, and returns the new values in the same layout.
    """
    # scatter allows an index that is smaller than x: the rest of x is unchanged.
    for axis, size in enumerate(index.shape):
        if axis != dim and size < x.shape[axis]:
            front = _write_spanned(x.narrow(axis, 0, size), dim, index, write)
            return torch.cat([front, x.narrow(axis, size, x.shape[axis] - size)], axis)
    return write(x.movedim(dim, -1)).movedim(-1, dim)


def _spanned_rows(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """Return the first elements of ``x``, as many as the index has along each dimension.

    The result has the shape of the index with ``dim`` moved to the end.
    """
    for axis, size in enumerate(index.shape):
        x = x.narrow(axis, 0, size)
    return x.movedim(dim, -1)


def _scatter_rows(
    x: Tensor, dim: int, index: Tensor, source: Tensor, combine: Callable[..., Tensor]
) -> Tensor:
    """Return ``x`` with the values of ``source`` written to the positions ``index`` along ``dim``.

    ``combine`` takes the part of ``x`` to which the index can refer, the index, and the values of
    ``source``. It returns the part with the values written. In all four tensors, ``dim`` is moved
    to the end.
    """
    if not x.ndim or not index.ndim:
        flat = _scatter_rows(x.reshape(-1), 0, index.reshape(-1), source.reshape(-1), combine)
        return flat.reshape(x.shape)
    dim = axis_of(x, dim)
    if not index.numel():
        return x.clone()
    positions, rows = index.movedim(dim, -1), _spanned_rows(source, dim, index)
    return _write_spanned(x, dim, index, lambda x: combine(x, positions, rows))


def _replace_values(x: Tensor, positions: Tensor, rows: Tensor) -> Tensor:
    """Return ``x`` with ``x[..., positions[..., i]] = rows[..., i]``.

    If several positions are equal, the last value is used.
    """
    last = _last_write(positions, x.shape[-1])
    # −1 is not an index: without a write, any row may be read, since where() selects x.
    return torch.where(last >= 0, rows.gather(-1, last.clamp(min=0)), x)


def _add_values(x: Tensor, positions: Tensor, rows: Tensor) -> Tensor:
    """Return ``x`` with ``x[..., positions[..., i]] += rows[..., i]``.

    If several positions are equal, all of their values are added.
    """
    if x.dtype is torch.bool:  # the sum of bools is their disjunction
        return x | _add_values(x.to(torch.int64) * 0, positions, rows.to(torch.int64)).to(
            torch.bool
        )
    chosen = one_hot_mask(positions, x.shape[-1])
    return x + torch.where(chosen, rows.unsqueeze(-1), 0).sum(-2, dtype=x.dtype)


def _full_source(x: Tensor, index: Tensor, value: float) -> Tensor:
    return torch.full(index.shape, value, dtype=x.dtype, device=x.device)


@lowers("scatter.src")
def scatter(ctx: LoweringContext, x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return _scatter_rows(x, dim, index, src, _replace_values)


@lowers("scatter.value")
def scatter_value(ctx: LoweringContext, x: Tensor, dim: int, index: Tensor, value: float) -> Tensor:
    return _scatter_rows(x, dim, index, _full_source(x, index, value), _replace_values)


@lowers("scatter_add")
def scatter_add(ctx: LoweringContext, x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return _scatter_rows(x, dim, index, src, _add_values)


@lowers("scatter.reduce", "scatter.value_reduce")
def scatter_and_reduce(
    ctx: LoweringContext, x: Tensor, dim: int, index: Tensor, src: Tensor | float, *, reduce: str
) -> Tensor:
    src = src if isinstance(src, torch.Tensor) else _full_source(x, index, src)
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
    def combine(x: Tensor, positions: Tensor, rows: Tensor) -> Tensor:
        chosen = one_hot_mask(positions, x.shape[-1])
        count = chosen.sum(-2)
        start = x if include_self else torch.where(count > 0, _neutral_element(reduce, x), x)
        if reduce in ("amax", "amin"):
            is_max = reduce == "amax"
            written = torch.where(chosen, rows.unsqueeze(-1), _neutral_element(reduce, x))
            if is_max:
                return torch.maximum(start, written.amax(-2))
            return torch.minimum(start, written.amin(-2))
        if reduce == "prod":
            return start * torch.where(chosen, rows.unsqueeze(-1), 1).prod(-2, dtype=x.dtype)
        added = _add_values(start, positions, rows)
        if reduce == "sum":
            return added
        count = (count + 1) if include_self else count.clamp(min=1)
        if x.dtype.is_floating_point:
            return added / count
        return torch.div(added, count, rounding_mode="floor").to(x.dtype)

    return _scatter_rows(x, dim, index, src, combine)


def _neutral_element(reduce: str, x: Tensor) -> Tensor:
    """Return the neutral element of a reduction, such as 0 for a sum and −∞ for a maximum."""
    if reduce in ("amax", "amin"):
        is_float = x.dtype.is_floating_point
        lowest = -math.inf if is_float else torch.iinfo(x.dtype).min
        highest = math.inf if is_float else torch.iinfo(x.dtype).max
        return x.new_full((), lowest if reduce == "amax" else highest)
    return x.new_full((), 1 if reduce == "prod" else 0)


def _put_rows(x: Tensor, positions: Tensor, rows: Tensor, accumulate: bool) -> Tensor:
    """Return a copy of ``x`` in which new rows replace old rows, or are added to them.

    Args:
        x: The old rows, ``[size, …]``.
        positions: For each new row, the index of the row of ``x`` to change, ``[count]``.
        rows: The new rows, ``[count, …]``.
        accumulate: True to add the new rows; False to replace rows. If several new rows have the
            same position, all of them are added, or the last one replaces the row.
    """
    size = x.shape[0]
    if not positions.numel():
        return x.clone()
    shape = (size, *[1] * (x.ndim - 1))
    if accumulate:
        selected = one_hot_mask(positions, size).t()
        added = sum_selected_rows(selected, rows.reshape(rows.shape[0], -1)).reshape(x.shape)
        return (x | added) if x.dtype is torch.bool else x + added
    last = _last_write(positions, size)
    return torch.where((last >= 0).reshape(shape), rows.index_select(0, last.clamp(min=0)), x)


def _put_along(x: Tensor, dim: int, index: Tensor, source: Tensor, *, accumulate: bool) -> Tensor:
    """Return a copy of ``x`` in which slices of ``source`` replace slices, or are added to them.

    The slices are taken along ``dim``. ``index`` has the position in ``x`` of each new slice.
    """
    if not x.ndim:
        result = _put_rows(x.reshape(1), index.reshape(-1), source.reshape(-1), accumulate)
        return result.reshape(())
    front, rows = x.movedim(dim, 0), source.reshape(source.shape or (1,)).movedim(dim, 0)
    return _put_rows(front, index.reshape(-1), rows, accumulate).movedim(0, dim)


@lowers("index_add")
def index_add(
    ctx: LoweringContext, x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1
) -> Tensor:
    return _put_along(x, dim, index, source if alpha == 1 else source * alpha, accumulate=True)


@lowers("index_copy")
def index_copy(ctx: LoweringContext, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return _put_along(x, dim, index, source, accumulate=False)


@lowers("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(
    ctx: LoweringContext, x: Tensor, dim: int, index: Tensor, value: Tensor | float
) -> Tensor:
    if not x.ndim:
        return _cast_value(x, value)
    touched = one_hot_mask(index.reshape(-1), x.shape[dim]).sum(0) > 0
    shape = [x.shape[dim] if axis == axis_of(x, dim) else 1 for axis in range(x.ndim)]
    return torch.where(touched.reshape(shape), _cast_value(x, value), x)


def _cast_value(x: Tensor, value: Tensor | float) -> Tensor:
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
    # x[mask] = number, the most frequent case, needs no positions.
    if values.numel() == 1 and not accumulate and last is not None and last.dtype is torch.bool:
        front = len(indices) - 1
        if not any(each is not None for each in indices[:-1]):
            mask = last.reshape(*last.shape, *[1] * (x.ndim - front - last.ndim))
            return torch.where(mask, values.reshape(()), x)
    used, positions = flatten_indices(ctx, x, indices)
    order = [*used, *(dim for dim in range(x.ndim) if dim not in used)]
    sizes = [x.shape[dim] for dim in order]
    count, rest = math.prod(sizes[: len(used)]), sizes[len(used) :]
    neighbours = used == list(range(used[0], used[-1] + 1))
    before = rest[: used[0]] if neighbours else []
    rows = values.expand(*before, *positions.shape, *rest[len(before) :])
    # The dimensions of the positions come first, as in the table below.
    rows = rows.permute(
        *range(len(before), len(before) + positions.ndim),
        *range(len(before)),
        *range(len(before) + positions.ndim, rows.ndim),
    ).reshape(positions.numel(), *rest)
    table = x.permute(order).reshape(count, *rest)
    result = _put_rows(table, positions.reshape(-1), rows, accumulate).reshape(sizes)
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
        rest = x.narrow(dim, last, x.shape[dim] - last)
        return torch.cat([x.narrow(dim, 0, first), src, rest], dim)
    positions = torch.arange(first, max(first, last), step, device=x.device)
    return x.index_copy(dim, positions, src)


@lowers("select_scatter", open_sizes=True)
def select_scatter(ctx: LoweringContext, x: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    dim = axis_of(x, dim)
    position = index + x.shape[dim] if index < 0 else index
    rest = x.narrow(dim, position + 1, x.shape[dim] - position - 1)
    return torch.cat([x.narrow(dim, 0, position), src.unsqueeze(dim), rest], dim)


@lowers("diagonal_scatter")
def diagonal_scatter(
    ctx: LoweringContext, x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """Flatten ``dim1`` and ``dim2`` to one dimension; copy ``src`` to the diagonal's indices."""
    moved = x.movedim((dim1, dim2), (-2, -1))
    rows, columns = moved.shape[-2:]
    positions = torch.arange(rows * columns, device=x.device).reshape(rows, columns)
    flat = moved.reshape(*moved.shape[:-2], rows * columns)
    result = flat.index_copy(-1, positions.diagonal(offset), src)
    return result.reshape(moved.shape).movedim((-2, -1), (dim1, dim2))
