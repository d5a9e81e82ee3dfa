"""Express embeddings, indexing, gathering and masked scatters with ncnn's layers.

ncnn can look up rows of a table only by an int32 input of the model. A constant index becomes a few
slices of the table, if possible. Any other index becomes a one-hot matrix, by which the table is
multiplied.
"""

# ruff: noqa: D103 - each function writes the operator whose name it carries
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from enginebay_ncnn.dialect.arithmetic import apply_elementwise, apply_unary, broadcast_shapes
from enginebay_ncnn.dialect.contraction import write_cumsum, write_matmul
from enginebay_ncnn.dialect.layout import (
    as_outer_dim_inner,
    narrow,
    normalize_axis,
    reshape,
    write_cat,
    write_expand,
    write_permute,
    write_unsqueeze,
)
from enginebay_ncnn.dialect.logic import replace_nonfinite, write_eq
from enginebay_ncnn.dialect.values import (
    Blob,
    UnsupportedError,
    Value,
    element_count,
    emit_call,
    is_constant,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: A constant index becomes at most this many slices; a longer one becomes a matrix product.
_MAX_SLICES = 64


def one_hot(index: Value, count: int) -> Value:
    """Return ``torch.nn.functional.one_hot(index, count)`` as floats."""
    if isinstance(index, torch.Tensor):
        return functional.one_hot(index.long() % count, count).float()
    return write_eq(write_unsqueeze(index, index.ndim), torch.arange(count).float())


def pick_along(operand: Value, dim: int, index: Value) -> Value:
    """Return ``operand.index_select(dim, index)`` for an index of rank 1."""
    dim = normalize_axis(operand, dim)
    shape = (*operand.shape[:dim], element_count(index), *operand.shape[dim + 1 :])
    if isinstance(index, torch.Tensor):
        runs = _group_runs([position % operand.shape[dim] for position in index.tolist()])
        if len(runs) <= _MAX_SLICES:
            return write_cat([narrow(operand, dim, start, length) for start, length in runs], dim)
    chosen = one_hot(reshape(index, (element_count(index),)), operand.shape[dim])
    table = replace_nonfinite(as_outer_dim_inner(operand, dim))  # zero times infinity would be NaN
    if table.shape[0] == 1:
        return reshape(write_matmul(chosen, reshape(table, table.shape[1:])), shape)
    return reshape(write_matmul(chosen, table), shape)


def _group_runs(positions: list[int]) -> list[tuple[int, int]]:
    """Split positions into runs of consecutive numbers; return each run's start and length."""
    runs: list[tuple[int, int]] = []
    for position in positions:
        if runs and position == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((position, 1))
    return runs


def write_index_select(operand: Value, dim: int, index: Value) -> Value:
    return pick_along(operand, dim, reshape(index, (element_count(index),)))


def write_embedding(weight: Value, indices: Value, *_: object) -> Value:
    shape = (*indices.shape, weight.shape[-1])
    is_integer = isinstance(indices, Blob) and indices.tensor.dtype is torch.int64
    if is_integer and is_constant(weight):
        # pnnx takes the first dimension for the batch: put one of size one there.
        rows = reshape(indices, (1, element_count(indices)))
        return reshape(emit_call(functional.embedding, rows, weight), shape)
    return reshape(pick_along(weight, 0, reshape(indices, (element_count(indices),))), shape)


def write_index(operand: Value, indices: Sequence[Value | None]) -> Value:
    used = [dim for dim, index in enumerate(indices) if index is not None]
    tensors: list[Any] = [indices[dim] for dim in used]
    if any(index.dtype is torch.bool for index in tensors):
        return _index_by_mask(operand, used, tensors)
    tensors = [
        _count_from_start(index, operand.shape[dim])
        for dim, index in zip(used, tensors, strict=True)
    ]
    if len(used) == 1:
        (dim,), (index,) = used, tensors
        picked = pick_along(operand, dim, reshape(index, (element_count(index),)))
        return reshape(picked, (*operand.shape[:dim], *index.shape, *operand.shape[dim + 1 :]))
    are_neighbours = used == list(range(used[0], used[-1] + 1))
    order = used + [dim for dim in range(operand.ndim) if dim not in used]
    rest = [operand.shape[dim] for dim in range(operand.ndim) if dim not in used]
    shape = broadcast_shapes(*(index.shape for index in tensors))
    count = math.prod(operand.shape[dim] for dim in used)
    positions = _flatten_indices(tensors, [operand.shape[dim] for dim in used])
    table = reshape(write_permute(operand, order), (count, math.prod(rest)))
    picked = pick_along(table, 0, reshape(positions, (element_count(positions),)))
    picked = reshape(picked, (*shape, *rest))
    if not are_neighbours or used[0] == 0:
        return picked
    front = list(range(len(shape), len(shape) + used[0]))
    back = list(range(len(shape) + used[0], len(shape) + len(rest)))
    # As in NumPy, the dimensions of neighbouring indices stay in their position.
    return write_permute(picked, [*front, *range(len(shape)), *back])


def _count_from_start(index: Value, size: int) -> Value:
    """Replace each negative index, which counts from the end, by ``index + size``."""
    if isinstance(index, torch.Tensor):
        return index.long() % size
    return apply_unary(lambda x: x + (x * -1.0).clamp(0.0, 1.0) * size, index)


def _flatten_indices(indices: list[Value], sizes: list[int]) -> Value:
    """Combine the indices of several dimensions, like ``numpy.ravel_multi_index``."""
    combined: Value = indices[0]
    for index, size in zip(indices[1:], sizes[1:], strict=True):
        if isinstance(combined, torch.Tensor) and isinstance(index, torch.Tensor):
            combined = combined * size + index
        else:
            combined = apply_elementwise(lambda a, b, n=size: a * n + b, combined, index)
    return combined


def _index_by_mask(operand: Value, used: list[int], masks: list[Value]) -> Value:
    mask = masks[0]
    if len(masks) > 1 or not isinstance(mask, torch.Tensor):
        raise UnsupportedError(
            "ncnn does not support indexing with a boolean mask: the result has no fixed size"
        )
    positions = mask.reshape(-1).nonzero().flatten()
    dim = used[0]
    shape = (*operand.shape[:dim], element_count(mask), *operand.shape[dim + mask.ndim :])
    return pick_along(reshape(operand, shape), dim, positions)


def write_masked_scatter(operand: Value, mask: Value, source: Value) -> Value:
    # An element's index in the source is the number of true elements before it.
    shape = broadcast_shapes(operand.shape, mask.shape)
    operand, width = write_expand(operand, shape), 1
    if isinstance(mask, Blob) and mask.shape == shape:
        mask = mask.row_source or mask
    if mask.shape[-1:] == (1,):  # each row is true or false as a whole
        width = shape[-1]
    mask = write_expand(mask, (*shape[:-1], shape[-1] // width))
    count = element_count(mask)
    table = reshape(source, (element_count(source),))
    if element_count(source) > count * width:
        table = narrow(table, 0, 0, count * width)
    table = reshape(table, (element_count(table) // width, width))
    running = write_cumsum(reshape(mask, (1, count)), 1)
    index = apply_elementwise(lambda a: a - 1.0, reshape(running, (count,)))
    picked = write_matmul(one_hot(index, table.shape[0]), table)
    operand = reshape(operand, (count, width))
    result = apply_elementwise(
        lambda m, s, t: s * m + t * (1.0 - m), reshape(mask, (count, 1)), picked, operand
    )
    return reshape(result, shape)


def write_gather(operand: Value, dim: int, index: Value, *_: object, **__: object) -> Value:
    dim = normalize_axis(operand, dim)
    last = [*(axis for axis in range(operand.ndim) if axis != dim), dim]
    back = [last.index(axis) for axis in range(operand.ndim)]
    rows = write_permute(operand, last)
    index = write_permute(index, last)
    for axis, size in enumerate(index.shape[:-1]):
        rows = narrow(rows, axis, 0, size)
    outer, width, count = math.prod(rows.shape[:-1]), rows.shape[-1], index.shape[-1]
    picked = _gather_rows(reshape(rows, (outer, width)), reshape(index, (outer, count)))
    return write_permute(reshape(picked, index.shape), back)


def _gather_rows(operand: Value, index: Value) -> Value:
    """Return ``result[i, j] = operand[i, index[i, j]]``."""
    outer, width = operand.shape
    count = index.shape[1]
    if isinstance(index, torch.Tensor):
        if (index == index[:1]).all():
            return pick_along(operand, 1, index[0])
        positions = (torch.arange(outer)[:, None] * width + index).reshape(-1)
        return reshape(pick_along(reshape(operand, (outer * width,)), 0, positions), (outer, count))
    product = write_matmul(one_hot(index, width), write_unsqueeze(replace_nonfinite(operand), 2))
    return reshape(product, (outer, count))


#: The writers of this file by the names of their operators.
WRITERS: dict[str, Callable[..., Any]] = {
    "index": write_index,
    "index_select": write_index_select,
    "gather": write_gather,
    "embedding": write_embedding,
    "masked_scatter": write_masked_scatter,
}
