"""Operators that move numbers: a blob has four dimensions, and no steps between its elements."""

# ruff: noqa: D103 - each function writes the operator whose name it carries
from __future__ import annotations

import math
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch

from enginebay_ncnn.dialect.values import Blob, Value, as_float, count_of, emit, is_constant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

#: The rank above which nothing but a reshape is handed to pnnx.
MAX_RANK = 4


def reshape(x: Value, shape: Sequence[int]) -> Value:
    """``x.reshape(shape)``; of a reshape of a reshape only the last one stays in the graph."""
    if not isinstance(x, Blob):
        return x.reshape(tuple(shape))
    source = x.reshape_of or x
    if source.shape == tuple(shape):
        return source
    # pnnx cannot write a reshape to no dimensions.
    function = (lambda t: t.reshape(tuple(shape))) if len(shape) else _to_scalar
    found = emit(function, source)
    assert isinstance(found, Blob)
    return replace(found, reshape_of=source)


def _to_scalar(x: Tensor) -> Tensor:
    return x.reshape(1).squeeze(0)


def axis_of(x: Value, dim: int) -> int:
    """The dimension counted from the front."""
    return dim % max(x.ndim, 1)


def as_three(x: Value, dim: int) -> Value:
    """``outer × dim × inner``."""
    shape = x.shape
    return reshape(x, (math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])))


def is_front(x: Value, dim: int) -> bool:
    """Return True if pnnx may take a dimension for the batch, and then leaves it alone."""
    return dim == 0 and x.shape[0] != 1 and x.ndim > 1 and not is_constant(x)


def narrow(x: Value, dim: int, start: int, length: int) -> Value:
    """``length`` elements of one dimension from ``start`` on."""
    dim = axis_of(x, dim)
    if (start, length) == (0, x.shape[dim]):
        return x
    shape = (*x.shape[:dim], length, *x.shape[dim + 1 :])
    if x.ndim <= MAX_RANK and not is_front(x, dim):
        return _cut(x, dim, start, length)
    return reshape(_cut(as_three(x, dim), 1, start, length), shape)


def _cut(x: Value, dim: int, start: int, length: int) -> Value:
    # pnnx knows a slice, and not narrow.
    return emit(torch.ops.aten.slice, x, dim, start, start + length)


def write_view(x: Value, shape: Sequence[int], *_: Any) -> Value:
    known = -math.prod(shape)
    shape = [count_of(x) // known if size == -1 else size for size in shape] if known > 0 else shape
    return reshape(x, shape)


write_unsafe_view = write_view


def write_unsqueeze(x: Value, dim: int) -> Value:
    dim = dim % (x.ndim + 1)
    return reshape(x, (*x.shape[:dim], 1, *x.shape[dim:]))


def write_squeeze(x: Value, dim: int | Sequence[int] | None = None) -> Value:
    if dim is None:
        dims = set(range(x.ndim))
    else:
        dims = {axis_of(x, each) for each in ([dim] if isinstance(dim, int) else dim)}
    return reshape(x, [n for axis, n in enumerate(x.shape) if not (axis in dims and n == 1)])


def write_permute(x: Value, dims: Sequence[int]) -> Value:
    order = [axis_of(x, dim) for dim in dims]
    shape = [x.shape[axis] for axis in order]
    moved = [axis for axis in order if x.shape[axis] != 1]
    if moved == sorted(moved):  # only dimensions of size one change places
        return reshape(x, shape)
    if x.ndim <= MAX_RANK:
        return _permuted(x, order)
    return reshape(_permute_blocks(x, moved), shape)


def _permuted(x: Value, order: list[int]) -> Value:
    return emit(torch.permute, x, order)


def _permute_blocks(x: Value, order: list[int]) -> Value:
    """Permute by exchanging neighbouring blocks, one pair at a time: each is a 4-D permute."""
    groups: list[list[int]] = []
    for axis in order:  # axes that stay neighbours move as one
        kept = [each for each in range(x.ndim) if x.shape[each] != 1]
        if groups and kept.index(axis) == kept.index(groups[-1][-1]) + 1:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    wanted = [(group[0], math.prod(x.shape[axis] for axis in group)) for group in groups]
    now = sorted(wanted)
    if len(now) <= MAX_RANK:
        merged = reshape(x, [size for _, size in now])
        return _permuted(merged, [now.index(group) for group in wanted])
    for place, group in enumerate(wanted):
        found = now.index(group)
        if found == place:
            continue
        sizes = [size for _, size in now]
        parts = (sizes[:place], sizes[place:found], sizes[found : found + 1], sizes[found + 1 :])
        x = _permuted(reshape(x, [math.prod(part) for part in parts]), [0, 2, 1, 3])
        now.insert(place, now.pop(found))
    return x


def write_transpose(x: Value, dim0: int, dim1: int) -> Value:
    order = list(range(x.ndim))
    first, second = axis_of(x, dim0), axis_of(x, dim1)
    order[first], order[second] = order[second], order[first]
    return write_permute(x, order)


def write_t(x: Value) -> Value:
    return x if x.ndim < 2 else write_transpose(x, -1, -2)


def write_clone(x: Value, **_: Any) -> Value:
    return x


write_alias = write_detach = write_lift_fresh_copy = write_clone


def write_slice(
    x: Value, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Value:
    dim = axis_of(x, dim)
    first, last, step = slice(start, end, step).indices(x.shape[dim])
    count = len(range(first, last, step))
    if not count:  # for a concatenation to leave out
        return torch.zeros((*x.shape[:dim], 0, *x.shape[dim + 1 :]))
    if step == 1:
        return narrow(x, dim, first, count)
    return _every(x, dim, first, count, step)


def _every(x: Value, dim: int, first: int, count: int, step: int) -> Value:
    """Every ``step``-th element: groups of ``step``, of which the first element stays."""
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :])
    whole = count if first + count * step <= x.shape[dim] else count - 1
    pieces = []
    if whole:
        groups = as_three(narrow(x, dim, first, whole * step), dim)
        outer, _, inner = groups.shape
        # The step and what follows share a dimension, so that the rank stays three.
        groups = _cut(reshape(groups, (outer, whole, step * inner)), 2, 0, inner)
        pieces.append(groups)
    if whole < count:
        pieces.append(as_three(narrow(x, dim, first + whole * step, 1), dim))
    return reshape(_joined(pieces, 1), shape)


def write_select(x: Value, dim: int, index: int) -> Value:
    dim = axis_of(x, dim)
    piece = narrow(x, dim, index % x.shape[dim], 1)
    return reshape(piece, (*x.shape[:dim], *x.shape[dim + 1 :]))


def write_split(x: Value, sizes: int | Sequence[int], dim: int = 0) -> list[Value]:
    total = x.shape[dim]
    if isinstance(sizes, int):
        sizes = [min(sizes, total - start) for start in range(0, total, sizes)]
    starts = [0, *accumulate(sizes)]
    return [narrow(x, dim, start, size) for start, size in zip(starts, sizes, strict=False)]


write_split_with_sizes = write_split


def write_unbind(x: Value, dim: int = 0) -> list[Value]:
    return [write_select(x, dim, index) for index in range(x.shape[dim])]


def write_cat(tensors: Sequence[Value], dim: int = 0) -> Value:
    tensors = [as_float(each) for each in tensors if count_of(each)]
    if len(tensors) <= 1:
        return tensors[0] if tensors else torch.zeros(0)
    first = tensors[0]
    dim = axis_of(first, dim)
    if first.ndim <= MAX_RANK and (dim or first.ndim == 1):
        return _joined(tensors, dim)
    total = sum(each.shape[dim] for each in tensors)
    shape = (*first.shape[:dim], total, *first.shape[dim + 1 :])
    return reshape(_joined([as_three(each, dim) for each in tensors], 1), shape)


def _joined(tensors: list[Value], dim: int) -> Value:
    return tensors[0] if len(tensors) == 1 else emit(torch.cat, tensors, dim)


def write_stack(tensors: Sequence[Value], dim: int = 0) -> Value:
    dim = dim % (tensors[0].ndim + 1)
    return write_cat([write_unsqueeze(each, dim) for each in tensors], dim)


def write_expand(x: Value, size: Sequence[int], *_: Any, **__: Any) -> Value:
    shape = [1] * (len(size) - x.ndim) + list(x.shape)
    counts = [
        wanted if own == 1 and wanted != -1 else 1 for own, wanted in zip(shape, size, strict=True)
    ]
    result = write_repeat(x, counts)
    is_of_rows = x.ndim == len(size) and all(count == 1 for count in counts[:-1])
    if is_of_rows and isinstance(result, Blob) and isinstance(x, Blob):
        result = replace(result, rows_of=x)
    return result


def write_copy(x: Value, src: Value, *_: Any) -> Value:
    return write_expand(src, x.shape)


def write_repeat(x: Value, repeats: Sequence[int]) -> Value:
    repeats = [1] * (x.ndim - len(repeats)) + list(repeats)
    x = reshape(x, [1] * (len(repeats) - x.ndim) + list(x.shape))
    for dim, count in enumerate(repeats):
        if count != 1:
            shape = (*x.shape[:dim], x.shape[dim] * count, *x.shape[dim + 1 :])
            rows = (math.prod(x.shape[:dim]), 1, math.prod(x.shape[dim:]))
            x = reshape(_repeated(as_float(reshape(x, rows)), count), shape)
    return x


def _repeated(x: Value, count: int) -> Value:
    """A second dimension of size one, repeated; a product has fewer layers than a concatenation."""
    if isinstance(x, Blob) and x.tensor.dtype is not torch.float32:  # what looks up a table
        return _joined([x] * count, 1)
    return emit(torch.mul, x, torch.ones(count, 1))
