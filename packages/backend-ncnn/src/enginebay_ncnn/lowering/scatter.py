"""Writing to computed places: ``scatter``, ``index_put`` and what is made of them."""

# ruff: noqa: D103 - each lowering is documented by the operator whose name it carries
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from enginebay_ncnn.lowering.arithmetic import (
    broadcast,
    lower_add,
    lower_amax,
    lower_div,
    lower_mul,
    lower_sum,
)
from enginebay_ncnn.lowering.contraction import lower_matmul
from enginebay_ncnn.lowering.gather import flat_index, one_hot
from enginebay_ncnn.lowering.layout import (
    as_three,
    axis_of,
    lower_expand,
    lower_permute,
    lower_transpose,
    lower_unsqueeze,
    narrow,
    reshape,
)
from enginebay_ncnn.lowering.logic import (
    finite,
    lower_ge,
    lower_le,
    lower_lt,
    lower_maximum,
    lower_where,
)
from enginebay_ncnn.lowering.registry import (
    UnsupportedError,
    constant,
    count_of,
    is_constant,
    lowers,
    sizes_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


def _written(table: Tensor, places: Tensor, rows: Tensor, *, adding: bool) -> Tensor:
    """``table[places] = rows``, or ``+=``: ``... × count × width`` and ``... × n``."""
    chosen = one_hot(places, sizes_of(table)[-2])
    put = lower_matmul(lower_transpose(chosen, -1, -2), finite(rows))
    if adding:
        return lower_add(table, put)
    touched = lower_unsqueeze(lower_sum(chosen, -2).clamp(0.0, 1.0), -1)
    return lower_add(lower_mul(finite(table), 1.0 - touched), put)


def _as_rows(x: Tensor, dim: int) -> Tensor:
    """``outer × dim × 1``, the dimension last but one."""
    moved = lower_permute(x, [*(axis for axis in range(x.ndim) if axis != dim), dim])
    size = sizes_of(x)[dim]
    rows = reshape(moved, (count_of(x) // size, size, 1))
    return constant(rows) if is_constant(x) else rows


def _scatter(x: Tensor, dim: int, index: Tensor, src: Any, *, adding: bool) -> Tensor:
    dim = axis_of(x, dim)
    if not isinstance(src, torch.Tensor):
        src = constant(torch.full(sizes_of(index), float(src)))
    for axis, size in enumerate(sizes_of(index)):
        src = narrow(src, axis, 0, size)
        if axis != dim and size != sizes_of(x)[axis]:
            raise UnsupportedError("a scatter into a part of a tensor's rows")
    rest = [axis for axis in range(x.ndim) if axis != dim]
    shape = [sizes_of(x)[axis] for axis in (*rest, dim)]
    places = _as_rows(index, dim)
    places = reshape(places, sizes_of(places)[:2])
    if is_constant(index):
        constant(places)
    result = _written(_as_rows(x, dim), places, _as_rows(src, dim), adding=adding)
    return lower_permute(reshape(result, shape), [[*rest, dim].index(a) for a in range(x.ndim)])


@lowers("scatter")
def lower_scatter(
    x: Tensor, dim: int, index: Tensor, src: Any, reduce: str | None = None
) -> Tensor:
    if reduce not in (None, "add"):
        raise UnsupportedError(f"a scatter that reduces by '{reduce}'")
    return _scatter(x, dim, index, src, adding=reduce == "add")


@lowers("scatter_reduce.two")
def lower_scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if reduce in ("amax", "amin"):
        sign = 1.0 if reduce == "amax" else -1.0
        return _scatter_largest(x * sign, dim, index, src * sign, include_self) * sign
    if reduce not in ("sum", "mean"):
        raise UnsupportedError(f"a scatter that reduces by '{reduce}'")
    ones = constant(torch.ones(sizes_of(src)))
    none = constant(torch.zeros(sizes_of(x)))
    count = _scatter(none, dim, index, ones, adding=True)
    if include_self:
        start, count = x, count + 1.0
    else:  # what nothing is written to stays
        start = lower_mul(x, 1.0 - count.clamp(0.0, 1.0))
        count = count.clamp(1.0, 3e38)
    total = _scatter(start, dim, index, src, adding=True)
    return total if reduce == "sum" else lower_div(total, count)


def _scatter_largest(x: Tensor, dim: int, index: Tensor, src: Tensor, include_self: bool) -> Tensor:
    dim = axis_of(x, dim)
    count = _scatter(
        constant(torch.zeros(sizes_of(x))), dim, index, constant(torch.ones(sizes_of(src))),
        adding=True,
    )  # fmt: skip
    places = _as_rows(index, dim)
    places = reshape(places, sizes_of(places)[:2])
    if is_constant(index):
        constant(places)
    chosen = one_hot(places, sizes_of(x)[dim])
    rows = lower_amax(lower_where(chosen, _as_rows(src, dim), -3e38), 1)
    rest = [axis for axis in range(x.ndim) if axis != dim]
    rows = reshape(rows, [sizes_of(x)[axis] for axis in (*rest, dim)])
    found = lower_permute(rows, [[*rest, dim].index(axis) for axis in range(x.ndim)])
    if include_self:
        return lower_maximum(found, x)
    return lower_where(count.clamp(0.0, 1.0), found, x)


@lowers("scatter_add")
def lower_scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return _scatter(x, dim, index, src, adding=True)


def _index_rows(x: Tensor, dim: int, index: Tensor, src: Tensor, *, adding: bool) -> Tensor:
    dim = axis_of(x, dim)
    index = reshape(index, (count_of(index),))
    shape = sizes_of(x)
    result = _written(as_three(x, dim), index, as_three(src, dim), adding=adding)
    return reshape(result, shape)


@lowers("index_add")
def lower_index_add(
    x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1
) -> Tensor:
    return _index_rows(x, dim, index, source if alpha == 1 else source * alpha, adding=True)


@lowers("index_copy")
def lower_index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return _index_rows(x, dim, index, source, adding=False)


@lowers("index_fill")
def lower_index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    sizes = list(sizes_of(x))
    sizes[axis_of(x, dim)] = count_of(index)
    source = constant(torch.full(sizes, float(value)))
    return _index_rows(x, dim, index, source, adding=False)


@lowers("index_put")
def lower_index_put(
    x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor:
    used = [dim for dim, index in enumerate(indices) if index is not None]
    tensors: list[Any] = [indices[dim] for dim in used]
    if used != list(range(used[0], used[-1] + 1)):
        raise UnsupportedError("an assignment to indices with a gap between them")
    order = used + [dim for dim in range(x.ndim) if dim not in used]
    sizes = [sizes_of(x)[dim] for dim in order]
    indexed, rest = sizes[: len(used)], sizes[len(used) :]
    picked = broadcast(*(sizes_of(each) for each in tensors))
    found = flat_index(tensors, indexed)
    table = reshape(lower_permute(x, order), (math.prod(indexed), math.prod(rest)))
    front = sizes_of(x)[: used[0]]
    rows = lower_expand(values, (*front, *picked, *rest[len(front) :]))
    if front:
        moved = list(range(len(front), len(front) + len(picked)))
        others = [axis for axis in range(rows.ndim) if axis not in moved]
        rows = lower_permute(rows, [*moved, *others])
    rows = reshape(rows, (math.prod(picked), math.prod(rest)))
    places = reshape(found, (math.prod(picked),))
    if is_constant(found):
        constant(places)
    result = reshape(_written(table, places, rows, adding=accumulate), sizes)
    return lower_permute(result, [order.index(axis) for axis in range(x.ndim)])


def lower_masked_put(x: Tensor, mask: Tensor, values: Tensor) -> Tensor:
    """``x[mask] = value``, of one value."""
    if count_of(values) != 1:
        raise UnsupportedError("an assignment of several numbers to a mask")
    wide = reshape(mask, (*sizes_of(mask), *[1] * (x.ndim - mask.ndim)))
    return lower_where(wide, reshape(values, (1,)), x)


@lowers("bucketize")
def lower_bucketize(x: Tensor, boundaries: Tensor, *, right: bool = False, **_: Any) -> Tensor:
    return _count_before(boundaries, lower_unsqueeze(x, x.ndim), right=right)


@lowers("searchsorted")
def lower_searchsorted(boundaries: Tensor, x: Tensor, *, right: bool = False, **_: Any) -> Tensor:
    return _count_before(lower_unsqueeze(boundaries, -2), lower_unsqueeze(x, x.ndim), right=right)


def _count_before(boundaries: Tensor, x: Tensor, *, right: bool) -> Tensor:
    before = lower_le(boundaries, x) if right else lower_lt(boundaries, x)
    return lower_sum(before, -1)


@lowers("bincount")
def lower_bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    chosen = one_hot(x, minlength)
    return lower_sum(
        chosen if weights is None else lower_mul(chosen, lower_unsqueeze(weights, 1)), 0
    )


@lowers("histc")
def lower_histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:  # noqa: A002 - torch's names
    if min == max:
        raise UnsupportedError("a histogram over the range of the numbers")
    edges = constant(torch.linspace(min, max, bins + 1))
    flat = reshape(x, (count_of(x), 1))
    above = lower_ge(flat, constant(edges[:-1]))
    below = lower_lt(flat, constant(edges[1:]))
    last = constant(torch.zeros(bins).index_fill(0, torch.tensor([bins - 1]), 1.0))
    below = lower_add(lower_mul(below, 1.0 - last), lower_mul(lower_le(flat, float(max)), last))
    return lower_sum(lower_mul(above, below), 0)


@lowers("_grouped_mm")
def lower_grouped_mm(
    a: Tensor, b: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, *_: Any
) -> Tensor:
    """Rows in groups, each with a matrix of its own: every row by every matrix, and one kept."""
    if offs is None:
        return lower_matmul(a, b)
    if a.ndim != 2 or b.ndim != 3 or bias is not None:
        raise UnsupportedError("a product of groups along columns")
    rows = constant(torch.arange(sizes_of(a)[0]).float().reshape(-1, 1))
    ended: Any = 1.0
    total: Tensor | None = None
    for group in range(sizes_of(b)[0]):
        end = narrow(offs, 0, group, 1)
        after = lower_ge(rows, constant(end) if is_constant(offs) else end)
        kept = after * -1.0 + ended
        matrix = b[group] if is_constant(b) else narrow(b, 0, group, 1)
        product = lower_matmul(a, constant(matrix) if is_constant(b) else matrix[0])
        product = lower_mul(product, kept)
        total = product if total is None else total + product
        ended = after
    assert total is not None
    return total
