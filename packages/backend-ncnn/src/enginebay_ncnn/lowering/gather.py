"""Look-ups: ncnn has tables for int32 inputs, and products with zeros and ones for the rest."""

# ruff: noqa: D103 - each lowering is documented by the operator whose name it carries
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from enginebay_ncnn.lowering.arithmetic import (
    broadcast,
    elementwise,
    lower_mul,
)
from enginebay_ncnn.lowering.contraction import lower_matmul
from enginebay_ncnn.lowering.layout import (
    as_three,
    axis_of,
    lower_cat,
    lower_expand,
    lower_permute,
    lower_unsqueeze,
    narrow,
    reshape,
)
from enginebay_ncnn.lowering.logic import lower_eq
from enginebay_ncnn.lowering.registry import (
    UnsupportedError,
    as_float,
    constant,
    count_of,
    is_constant,
    lowers,
    sizes_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

#: Up to so many runs of neighbours, a look-up is a concatenation of slices.
_RUNS = 64


def one_hot(index: Tensor, count: int) -> Tensor:
    """``(index) × count``: one where the index is, zero elsewhere."""
    if is_constant(index):
        wrapped = index.long() % count
        return constant(functional.one_hot(wrapped, count).float())
    return lower_eq(lower_unsqueeze(index, index.ndim), constant(torch.arange(count).float()))


def pick(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """``x`` at a vector of places along one dimension."""
    dim = axis_of(x, dim)
    shape = (*sizes_of(x)[:dim], count_of(index), *sizes_of(x)[dim + 1 :])
    if is_constant(index):
        runs = _runs([place % sizes_of(x)[dim] for place in index.tolist()])
        if len(runs) <= _RUNS:
            return lower_cat([narrow(x, dim, start, length) for start, length in runs], dim)
    chosen = one_hot(reshape(index, (count_of(index),)), sizes_of(x)[dim])
    three = as_three(x, dim)
    outer = sizes_of(three)[0]
    if outer == 1:
        return reshape(lower_matmul(chosen, reshape(three, sizes_of(three)[1:])), shape)
    return reshape(lower_matmul(chosen, three), shape)


def _runs(places: list[int]) -> list[tuple[int, int]]:
    """Places as starts and lengths of neighbours."""
    runs: list[tuple[int, int]] = []
    for place in places:
        if runs and place == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((place, 1))
    return runs


@lowers("index_select")
def lower_index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    return pick(x, dim, reshape(index, (count_of(index),)))


@lowers("embedding")
def lower_embedding(weight: Tensor, indices: Tensor, *_: Any) -> Tensor:
    if indices.dtype is torch.int64 and is_constant(weight):
        # pnnx takes the first dimension for the batch.
        rows = reshape(indices, (1, count_of(indices)))
        found = functional.embedding(rows, weight)
        return reshape(found, (*sizes_of(indices), sizes_of(weight)[1]))
    return reshape(
        pick(weight, 0, reshape(indices, (count_of(indices),))),
        (*sizes_of(indices), sizes_of(weight)[-1]),
    )


@lowers("index")
def lower_index(x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    used = [dim for dim, index in enumerate(indices) if index is not None]
    tensors: list[Any] = [indices[dim] for dim in used]
    if any(each.dtype is torch.bool for each in tensors):
        return _by_mask(x, used, tensors)
    if len(used) == 1:
        (dim,), (index,) = used, tensors
        picked = pick(x, dim, reshape(index, (count_of(index),)))
        return reshape(picked, (*sizes_of(x)[:dim], *sizes_of(index), *sizes_of(x)[dim + 1 :]))
    neighbours = used == list(range(used[0], used[-1] + 1))
    order = used + [dim for dim in range(x.ndim) if dim not in used]
    rest = [sizes_of(x)[dim] for dim in range(x.ndim) if dim not in used]
    shape = broadcast(*(sizes_of(each) for each in tensors))
    count = math.prod(sizes_of(x)[dim] for dim in used)
    places = flat_index(tensors, [sizes_of(x)[dim] for dim in used])
    table = reshape(lower_permute(x, order), (count, math.prod(rest)))
    found = reshape(pick(table, 0, reshape(places, (count_of(places),))), (*shape, *rest))
    if not neighbours or used[0] == 0:
        return found
    front = list(range(len(shape), len(shape) + used[0]))
    back = list(range(len(shape) + used[0], len(shape) + len(rest)))
    return lower_permute(found, [*front, *range(len(shape)), *back])


def flat_index(indices: list[Tensor], sizes: list[int]) -> Tensor:
    """Several indices as one into their dimensions laid flat."""
    if all(map(is_constant, indices)):
        total = torch.zeros((), dtype=torch.int64)
        for index, size in zip(indices, sizes, strict=True):
            total = total * size + index.long() % size
        return constant(total)
    places = as_float(indices[0])
    if is_constant(indices[0]):
        constant(places)
    for index, size in zip(indices[1:], sizes[1:], strict=True):
        places = elementwise(lambda a, b, n=size: a * n + b, places, index)
    return places


def _by_mask(x: Tensor, used: list[int], masks: list[Tensor]) -> Tensor:
    if len(masks) > 1 or not is_constant(masks[0]):
        raise UnsupportedError("a selection by a mask: its result has no fixed size")
    (mask,) = masks
    places = constant(mask.reshape(-1).nonzero().flatten())
    dim = used[0]
    shape = (*sizes_of(x)[:dim], count_of(mask), *sizes_of(x)[dim + mask.ndim :])
    return pick(reshape(x, shape), dim, places)


@lowers("flip")
def lower_flip(x: Tensor, dims: Sequence[int]) -> Tensor:
    for dim in dims:
        if sizes_of(x)[dim] > 1:
            x = pick(x, dim, constant(torch.arange(sizes_of(x)[dim]).flip(0)))
    return x


@lowers("diagonal")
def lower_diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    first, second = axis_of(x, dim1), axis_of(x, dim2)
    order = [axis for axis in range(x.ndim) if axis not in (first, second)]
    turned = lower_permute(x, [*order, first, second])
    *front, rows, columns = sizes_of(turned)
    places = torch.arange(rows * columns).reshape(rows, columns).diagonal(offset)
    flat = reshape(turned, (*front, rows * columns))
    return pick(flat, -1, constant(places))


@lowers("masked_scatter")
def lower_masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The place of each element in the source is how many are true before it."""
    shape = broadcast(sizes_of(x), sizes_of(mask))
    x, width = lower_expand(x, shape), 1
    if sizes_of(mask) == shape:
        mask = getattr(mask, "rows_of", mask)
    if sizes_of(mask)[-1:] == (1,):  # whole rows are true or false
        width = shape[-1]
    mask = lower_expand(mask, (*shape[:-1], shape[-1] // width))
    count = count_of(mask)
    table = reshape(source, (count_of(source),))
    if count_of(source) > count * width:
        table = narrow(table, 0, 0, count * width)
    table = reshape(table, (count_of(table) // width, width))
    chosen = reshape(mask, (1, count))
    before = elementwise(lambda a: a - 1.0, reshape(lower_cumsum(chosen, 1), (count,)))
    found = lower_matmul(one_hot(before, sizes_of(table)[0]), table)
    x = reshape(x, (count, width))
    result = elementwise(lambda m, s, t: s * m + t * (1.0 - m), reshape(mask, (count, 1)), found, x)
    return reshape(result, shape)


@lowers("gather")
def lower_gather(x: Tensor, dim: int, index: Tensor, *_: Any, **__: Any) -> Tensor:
    dim = axis_of(x, dim)
    last = [*(axis for axis in range(x.ndim) if axis != dim), dim]
    back = [last.index(axis) for axis in range(x.ndim)]
    rows = lower_permute(x, last)
    places = lower_permute(index, last)
    if is_constant(index):
        constant(places)
    for axis, size in enumerate(sizes_of(places)[:-1]):
        rows = narrow(rows, axis, 0, size)
    outer, width, count = math.prod(sizes_of(rows)[:-1]), sizes_of(rows)[-1], sizes_of(places)[-1]
    places_of_rows = reshape(places, (outer, count))
    if is_constant(index):
        constant(places_of_rows)
    found = _rows(reshape(rows, (outer, width)), places_of_rows)
    return lower_permute(reshape(found, sizes_of(places)), back)


def _rows(x: Tensor, index: Tensor) -> Tensor:
    """``out[i, j] = x[i, index[i, j]]``."""
    outer, width = sizes_of(x)
    count = sizes_of(index)[1]
    if is_constant(index):
        if (index == index[:1]).all():
            return pick(x, 1, constant(index[0]))
        places = (torch.arange(outer)[:, None] * width + index).reshape(-1)
        return reshape(pick(reshape(x, (outer * width,)), 0, constant(places)), (outer, count))
    chosen = one_hot(index, width)
    product = lower_matmul(chosen, lower_unsqueeze(x, 2))
    return reshape(product, (outer, count))


@lowers("unfold")
def lower_unfold(x: Tensor, dim: int, size: int, step: int) -> Tensor:
    dim = axis_of(x, dim)
    shape = sizes_of(x)
    count = (shape[dim] - size) // step + 1
    index = torch.arange(count)[:, None] * step + torch.arange(size)
    windows = pick(x, dim, constant(index.reshape(-1)))
    windows = reshape(windows, (*shape[:dim], count, size, *shape[dim + 1 :]))
    order = [axis for axis in range(windows.ndim) if axis != dim + 1]
    return lower_permute(windows, [*order, dim + 1])


def strided(
    x: Tensor,
    original: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """``as_strided``, which looks at the memory: at that of the tensor that ``x`` stands for."""
    first = original.storage_offset()
    place = torch.tensor(first if storage_offset is None else storage_offset)
    for extent, step in zip(size, stride, strict=True):
        place = place.unsqueeze(-1) + torch.arange(extent) * step
    where = torch.tensor(first)
    for extent, step in zip(original.shape, original.stride(), strict=True):
        where = where.unsqueeze(-1) + torch.arange(extent) * step
    elements = torch.full((int(max(place.max(), where.max())) + 1,), -1)
    elements[where.reshape(-1)] = torch.arange(where.numel())
    index = elements[place.reshape(-1)]
    if (index < 0).any():
        raise UnsupportedError("as_strided beyond the tensor that it is given")
    return reshape(pick(reshape(x, (count_of(x),)), 0, constant(index)), size)


@lowers("one_hot")
def lower_one_hot(index: Tensor, num_classes: int) -> Tensor:
    return one_hot(index, num_classes)


@lowers("cumsum")
def lower_cumsum(x: Tensor, dim: int, **_: Any) -> Tensor:
    dim = axis_of(x, dim)
    size = sizes_of(x)[dim]
    below = constant(torch.ones(size, size).tril())
    return reshape(lower_matmul(below, as_three(x, dim)), sizes_of(x))


@lowers("cumprod")
def lower_cumprod(x: Tensor, dim: int, **_: Any) -> Tensor:
    dim = axis_of(x, dim)
    parts = [narrow(x, dim, place, 1) for place in range(sizes_of(x)[dim])]
    if len(parts) > _RUNS:
        raise UnsupportedError(f"a cumulative product of more than {_RUNS} numbers")
    for place in range(1, len(parts)):
        parts[place] = lower_mul(parts[place - 1], parts[place])
    return lower_cat(parts, dim)
