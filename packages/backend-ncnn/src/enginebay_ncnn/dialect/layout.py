"""Express operators that change shapes or move elements with ncnn's layers.

A layer's operands have at most four dimensions.
"""

# ruff: noqa: D103 - each function writes the operator whose name it carries
from __future__ import annotations

import math
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch

from enginebay_ncnn.dialect.values import (
    Blob,
    Value,
    as_float,
    element_count,
    emit_call,
    is_constant,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

#: The largest rank of an ncnn blob: of larger ranks, only reshapes are written.
MAX_RANK = 4


def reshape(operand: Value, shape: Sequence[int]) -> Value:
    """Return ``operand.reshape(shape)``; several consecutive reshapes become one reshape."""
    if not isinstance(operand, Blob):
        return operand.reshape(tuple(shape))
    source = operand.reshape_source or operand
    if source.shape == tuple(shape):
        return source
    # pnnx cannot write a reshape to no dimensions.
    function = (lambda t: t.reshape(tuple(shape))) if len(shape) else _to_scalar
    result = emit_call(function, source)
    assert isinstance(result, Blob)
    return replace(result, reshape_source=source)


def _to_scalar(operand: Tensor) -> Tensor:
    return operand.reshape(1).squeeze(0)


def normalize_axis(operand: Value, dim: int) -> int:
    """Convert a negative dimension, which counts from the end, to an index from the front."""
    return dim % max(operand.ndim, 1)


def as_outer_dim_inner(operand: Value, dim: int) -> Value:
    """Return a value with three dimensions: all before ``dim`` merged, ``dim``, the rest merged."""
    shape = operand.shape
    return reshape(operand, (math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])))


def may_be_batch(operand: Value, dim: int) -> bool:
    """Return True if pnnx may treat ``dim`` as the batch, and so drop operations along ``dim``."""
    return dim == 0 and operand.shape[0] != 1 and operand.ndim > 1 and not is_constant(operand)


def narrow(operand: Value, dim: int, start: int, length: int) -> Value:
    """Return ``length`` elements of one dimension, from ``start`` on."""
    dim = normalize_axis(operand, dim)
    if (start, length) == (0, operand.shape[dim]):
        return operand
    shape = (*operand.shape[:dim], length, *operand.shape[dim + 1 :])
    if operand.ndim <= MAX_RANK and not may_be_batch(operand, dim):
        return _emit_slice(operand, dim, start, length)
    return reshape(_emit_slice(as_outer_dim_inner(operand, dim), 1, start, length), shape)


def _emit_slice(operand: Value, dim: int, start: int, length: int) -> Value:
    # pnnx reads aten::slice, but not aten::narrow.
    return emit_call(torch.ops.aten.slice, operand, dim, start, start + length)


def write_view(operand: Value, shape: Sequence[int], *_: object) -> Value:
    known = -math.prod(shape)
    shape = (
        [element_count(operand) // known if size == -1 else size for size in shape]
        if known > 0
        else shape
    )
    return reshape(operand, shape)


def write_unsqueeze(operand: Value, dim: int) -> Value:
    dim = dim % (operand.ndim + 1)
    return reshape(operand, (*operand.shape[:dim], 1, *operand.shape[dim:]))


def write_squeeze(operand: Value, dim: int | Sequence[int] | None = None) -> Value:
    if dim is None:
        dims = set(range(operand.ndim))
    else:
        dims = {normalize_axis(operand, axis) for axis in ([dim] if isinstance(dim, int) else dim)}
    return reshape(
        operand, [n for axis, n in enumerate(operand.shape) if not (axis in dims and n == 1)]
    )


def write_permute(operand: Value, dims: Sequence[int]) -> Value:
    order = [normalize_axis(operand, dim) for dim in dims]
    shape = [operand.shape[axis] for axis in order]
    moved = [axis for axis in order if operand.shape[axis] != 1]
    if moved == sorted(moved):  # only dimensions of size one move
        return reshape(operand, shape)
    if operand.ndim <= MAX_RANK:
        return _emit_permute(operand, order)
    return reshape(_permute_blocks(operand, moved), shape)


def _emit_permute(operand: Value, order: list[int]) -> Value:
    return emit_call(torch.permute, operand, order)


def _permute_blocks(operand: Value, order: list[int]) -> Value:
    """Permute more than four dimensions in steps that permute at most four merged dimensions.

    ``order`` lists the dimensions larger than one. Dimensions of the result are merged: the caller
    reshapes it. If one step is not enough, each step exchanges two adjacent groups of dimensions.
    """
    groups: list[list[int]] = []
    for axis in order:  # axes that stay neighbours move as one
        large = [index for index in range(operand.ndim) if operand.shape[index] != 1]
        if groups and large.index(axis) == large.index(groups[-1][-1]) + 1:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    target = [(group[0], math.prod(operand.shape[axis] for axis in group)) for group in groups]
    current = sorted(target)
    if len(current) <= MAX_RANK:
        merged = reshape(operand, [size for _, size in current])
        return _emit_permute(merged, [current.index(group) for group in target])
    for end, group in enumerate(target):
        start = current.index(group)
        if start == end:
            continue
        sizes = [size for _, size in current]
        parts = (sizes[:end], sizes[end:start], sizes[start : start + 1], sizes[start + 1 :])
        operand = _emit_permute(reshape(operand, [math.prod(part) for part in parts]), [0, 2, 1, 3])
        current.insert(end, current.pop(start))
    return operand


def write_transpose(operand: Value, dim0: int, dim1: int) -> Value:
    order = list(range(operand.ndim))
    first, second = normalize_axis(operand, dim0), normalize_axis(operand, dim1)
    order[first], order[second] = order[second], order[first]
    return write_permute(operand, order)


def write_t(operand: Value) -> Value:
    return operand if operand.ndim < 2 else write_transpose(operand, -1, -2)


def write_clone(operand: Value, **_: object) -> Value:
    return operand


def write_slice(
    operand: Value, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Value:
    dim = normalize_axis(operand, dim)
    first, last, step = slice(start, end, step).indices(operand.shape[dim])
    count = len(range(first, last, step))
    if not count:  # write_cat leaves it out
        return torch.zeros((*operand.shape[:dim], 0, *operand.shape[dim + 1 :]))
    if step == 1:
        return narrow(operand, dim, first, count)
    return _take_every(operand, dim, first, count, step)


def _take_every(operand: Value, dim: int, first: int, count: int, step: int) -> Value:
    """Return ``count`` elements along ``dim``: every ``step``-th, from index ``first`` on."""
    # ncnn has no strides: only slices can be cut.
    shape = (*operand.shape[:dim], count, *operand.shape[dim + 1 :])
    whole = count if first + count * step <= operand.shape[dim] else count - 1
    pieces = []
    if whole:
        groups = as_outer_dim_inner(narrow(operand, dim, first, whole * step), dim)
        outer, _, inner = groups.shape
        # The step and the inner dimensions are merged, so that the rank stays three.
        groups = _emit_slice(reshape(groups, (outer, whole, step * inner)), 2, 0, inner)
        pieces.append(groups)
    if whole < count:
        pieces.append(as_outer_dim_inner(narrow(operand, dim, first + whole * step, 1), dim))
    return reshape(_emit_cat(pieces, 1), shape)


def write_select(operand: Value, dim: int, index: int) -> Value:
    dim = normalize_axis(operand, dim)
    piece = narrow(operand, dim, index % operand.shape[dim], 1)
    return reshape(piece, (*operand.shape[:dim], *operand.shape[dim + 1 :]))


def write_split(operand: Value, sizes: int | Sequence[int], dim: int = 0) -> list[Value]:
    total = operand.shape[dim]
    if isinstance(sizes, int):
        sizes = [min(sizes, total - start) for start in range(0, total, sizes)]
    starts = [0, *accumulate(sizes)]
    return [narrow(operand, dim, start, size) for start, size in zip(starts, sizes, strict=False)]


def write_unbind(operand: Value, dim: int = 0) -> list[Value]:
    return [write_select(operand, dim, index) for index in range(operand.shape[dim])]


def write_cat(tensors: Sequence[Value], dim: int = 0) -> Value:
    tensors = [as_float(tensor) for tensor in tensors if element_count(tensor)]
    if len(tensors) <= 1:
        return tensors[0] if tensors else torch.zeros(0)
    first = tensors[0]
    dim = normalize_axis(first, dim)
    if first.ndim <= MAX_RANK and (dim or first.ndim == 1):
        return _emit_cat(tensors, dim)
    total = sum(tensor.shape[dim] for tensor in tensors)
    shape = (*first.shape[:dim], total, *first.shape[dim + 1 :])
    return reshape(_emit_cat([as_outer_dim_inner(tensor, dim) for tensor in tensors], 1), shape)


def _emit_cat(tensors: list[Value], dim: int) -> Value:
    return tensors[0] if len(tensors) == 1 else emit_call(torch.cat, tensors, dim)


def write_stack(tensors: Sequence[Value], dim: int = 0) -> Value:
    dim = dim % (tensors[0].ndim + 1)
    return write_cat([write_unsqueeze(tensor, dim) for tensor in tensors], dim)


def write_expand(operand: Value, size: Sequence[int], *_: object, **__: object) -> Value:
    shape = [1] * (len(size) - operand.ndim) + list(operand.shape)
    counts = [
        target if current == 1 and target != -1 else 1
        for current, target in zip(shape, size, strict=True)
    ]
    result = write_repeat(operand, counts)
    repeats_rows = operand.ndim == len(size) and all(count == 1 for count in counts[:-1])
    if repeats_rows and isinstance(result, Blob) and isinstance(operand, Blob):
        result = replace(result, row_source=operand)
    return result


def write_copy(operand: Value, src: Value, *_: object) -> Value:
    return write_expand(src, operand.shape)


def write_repeat(operand: Value, repeats: Sequence[int]) -> Value:
    repeats = [1] * (operand.ndim - len(repeats)) + list(repeats)
    operand = reshape(operand, [1] * (len(repeats) - operand.ndim) + list(operand.shape))
    for dim, count in enumerate(repeats):
        if count != 1:
            shape = (*operand.shape[:dim], operand.shape[dim] * count, *operand.shape[dim + 1 :])
            rows = (math.prod(operand.shape[:dim]), 1, math.prod(operand.shape[dim:]))
            operand = reshape(_repeat_rows(as_float(reshape(operand, rows)), count), shape)
    return operand


def _repeat_rows(operand: Value, count: int) -> Value:
    """Repeat a value of shape ``(n, 1, m)`` along its second dimension ``count`` times."""
    if isinstance(operand, Blob) and operand.tensor.dtype is not torch.float32:
        return _emit_cat([operand] * count, 1)  # integers that look up a table
    # A product has fewer layers than a concatenation.
    return emit_call(torch.mul, operand, torch.ones(count, 1))


#: The writers of this file by the names of their operators.
WRITERS: dict[str, Callable[..., Any]] = {
    "view": write_view,
    "_unsafe_view": write_view,
    "unsqueeze": write_unsqueeze,
    "squeeze": write_squeeze,
    "permute": write_permute,
    "transpose": write_transpose,
    "t": write_t,
    "clone": write_clone,
    "alias": write_clone,
    "detach": write_clone,
    "lift_fresh_copy": write_clone,
    "copy": write_copy,
    "slice": write_slice,
    "select": write_select,
    "split": write_split,
    "split_with_sizes": write_split,
    "unbind": write_unbind,
    "cat": write_cat,
    "stack": write_stack,
    "expand": write_expand,
    "repeat": write_repeat,
}
