"""Look-ups: ncnn has tables for int32 inputs, and products with zeros and ones for the rest."""

# ruff: noqa: D103 - each function writes the operator whose name it carries
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from enginebay_ncnn.dialect.arithmetic import broadcast, elementwise, flat
from enginebay_ncnn.dialect.contraction import write_cumsum, write_matmul
from enginebay_ncnn.dialect.layout import (
    as_three,
    axis_of,
    narrow,
    reshape,
    write_cat,
    write_expand,
    write_permute,
    write_unsqueeze,
)
from enginebay_ncnn.dialect.logic import finite, write_eq
from enginebay_ncnn.dialect.values import Blob, UnsupportedError, Value, count_of, emit, is_constant

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Up to so many pieces are cut out and put together; above it is a product of matrices.
_RUNS = 64


def one_hot(index: Value, count: int) -> Value:
    """``(index) × count``: one where the index is, zero elsewhere."""
    if isinstance(index, torch.Tensor):
        return functional.one_hot(index.long() % count, count).float()
    return write_eq(write_unsqueeze(index, index.ndim), torch.arange(count).float())


def pick(x: Value, dim: int, index: Value) -> Value:
    """``x`` at a vector of places along one dimension."""
    dim = axis_of(x, dim)
    shape = (*x.shape[:dim], count_of(index), *x.shape[dim + 1 :])
    if isinstance(index, torch.Tensor):
        runs = _runs([place % x.shape[dim] for place in index.tolist()])
        if len(runs) <= _RUNS:
            return write_cat([narrow(x, dim, start, length) for start, length in runs], dim)
    chosen = one_hot(reshape(index, (count_of(index),)), x.shape[dim])
    three = finite(as_three(x, dim))  # zero times infinity would be NaN
    if three.shape[0] == 1:
        return reshape(write_matmul(chosen, reshape(three, three.shape[1:])), shape)
    return reshape(write_matmul(chosen, three), shape)


def _runs(places: list[int]) -> list[tuple[int, int]]:
    """Places as starts and lengths of neighbours."""
    runs: list[tuple[int, int]] = []
    for place in places:
        if runs and place == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((place, 1))
    return runs


def write_index_select(x: Value, dim: int, index: Value) -> Value:
    return pick(x, dim, reshape(index, (count_of(index),)))


def write_embedding(weight: Value, indices: Value, *_: Any) -> Value:
    shape = (*indices.shape, weight.shape[-1])
    is_whole = isinstance(indices, Blob) and indices.tensor.dtype is torch.int64
    if is_whole and is_constant(weight):
        # pnnx takes the first dimension for the batch.
        rows = reshape(indices, (1, count_of(indices)))
        return reshape(emit(functional.embedding, rows, weight), shape)
    return reshape(pick(weight, 0, reshape(indices, (count_of(indices),))), shape)


def write_index(x: Value, indices: Sequence[Value | None]) -> Value:
    used = [dim for dim, index in enumerate(indices) if index is not None]
    tensors: list[Any] = [indices[dim] for dim in used]
    if any(each.dtype is torch.bool for each in tensors):
        return _by_mask(x, used, tensors)
    tensors = [_from_start(each, x.shape[dim]) for dim, each in zip(used, tensors, strict=True)]
    if len(used) == 1:
        (dim,), (index,) = used, tensors
        picked = pick(x, dim, reshape(index, (count_of(index),)))
        return reshape(picked, (*x.shape[:dim], *index.shape, *x.shape[dim + 1 :]))
    neighbours = used == list(range(used[0], used[-1] + 1))
    order = used + [dim for dim in range(x.ndim) if dim not in used]
    rest = [x.shape[dim] for dim in range(x.ndim) if dim not in used]
    shape = broadcast(*(each.shape for each in tensors))
    count = math.prod(x.shape[dim] for dim in used)
    places = _flat_index(tensors, [x.shape[dim] for dim in used])
    table = reshape(write_permute(x, order), (count, math.prod(rest)))
    found = reshape(pick(table, 0, reshape(places, (count_of(places),))), (*shape, *rest))
    if not neighbours or used[0] == 0:
        return found
    front = list(range(len(shape), len(shape) + used[0]))
    back = list(range(len(shape) + used[0], len(shape) + len(rest)))
    return write_permute(found, [*front, *range(len(shape)), *back])


def _from_start(index: Value, size: int) -> Value:
    """Places counted from the start, where PyTorch counts negative ones from the end."""
    if isinstance(index, torch.Tensor):
        return index.long() % size
    return flat(lambda x: x + (x * -1.0).clamp(0.0, 1.0) * size, index)


def _flat_index(indices: list[Value], sizes: list[int]) -> Value:
    """Several indices as one into their dimensions laid flat."""
    places: Value = indices[0]
    for index, size in zip(indices[1:], sizes[1:], strict=True):
        if isinstance(places, torch.Tensor) and isinstance(index, torch.Tensor):
            places = places * size + index
        else:
            places = elementwise(lambda a, b, n=size: a * n + b, places, index)
    return places


def _by_mask(x: Value, used: list[int], masks: list[Value]) -> Value:
    mask = masks[0]
    if len(masks) > 1 or not isinstance(mask, torch.Tensor):
        raise UnsupportedError("a selection by a mask: its result has no fixed size")
    places = mask.reshape(-1).nonzero().flatten()
    dim = used[0]
    shape = (*x.shape[:dim], count_of(mask), *x.shape[dim + mask.ndim :])
    return pick(reshape(x, shape), dim, places)


def write_masked_scatter(x: Value, mask: Value, source: Value) -> Value:
    """The place of each element in the source is how many are true before it."""
    shape = broadcast(x.shape, mask.shape)
    x, width = write_expand(x, shape), 1
    if isinstance(mask, Blob) and mask.shape == shape:
        mask = mask.rows_of or mask
    if mask.shape[-1:] == (1,):  # whole rows are true or false
        width = shape[-1]
    mask = write_expand(mask, (*shape[:-1], shape[-1] // width))
    count = count_of(mask)
    table = reshape(source, (count_of(source),))
    if count_of(source) > count * width:
        table = narrow(table, 0, 0, count * width)
    table = reshape(table, (count_of(table) // width, width))
    chosen = reshape(mask, (1, count))
    before = elementwise(lambda a: a - 1.0, reshape(write_cumsum(chosen, 1), (count,)))
    found = write_matmul(one_hot(before, table.shape[0]), table)
    x = reshape(x, (count, width))
    result = elementwise(lambda m, s, t: s * m + t * (1.0 - m), reshape(mask, (count, 1)), found, x)
    return reshape(result, shape)


def write_gather(x: Value, dim: int, index: Value, *_: Any, **__: Any) -> Value:
    dim = axis_of(x, dim)
    last = [*(axis for axis in range(x.ndim) if axis != dim), dim]
    back = [last.index(axis) for axis in range(x.ndim)]
    rows = write_permute(x, last)
    places = write_permute(index, last)
    for axis, size in enumerate(places.shape[:-1]):
        rows = narrow(rows, axis, 0, size)
    outer, width, count = math.prod(rows.shape[:-1]), rows.shape[-1], places.shape[-1]
    found = _rows(reshape(rows, (outer, width)), reshape(places, (outer, count)))
    return write_permute(reshape(found, places.shape), back)


def _rows(x: Value, index: Value) -> Value:
    """``out[i, j] = x[i, index[i, j]]``."""
    outer, width = x.shape
    count = index.shape[1]
    if isinstance(index, torch.Tensor):
        if (index == index[:1]).all():
            return pick(x, 1, index[0])
        places = (torch.arange(outer)[:, None] * width + index).reshape(-1)
        return reshape(pick(reshape(x, (outer * width,)), 0, places), (outer, count))
    product = write_matmul(one_hot(index, width), write_unsqueeze(finite(x), 2))
    return reshape(product, (outer, count))
