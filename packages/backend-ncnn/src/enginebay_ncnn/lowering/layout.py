"""Operators that move numbers: a blob has four dimensions, and no steps between its elements."""

# ruff: noqa: D103 - each lowering is documented by the operator whose name it carries
from __future__ import annotations

import math
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import torch

from enginebay_ncnn.lowering.registry import (
    annotate,
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

#: The rank above which nothing but a reshape is handed to pnnx.
MAX_RANK = 4


def reshape(x: Tensor, shape: Sequence[int]) -> Tensor:
    """``x.reshape(shape)``; of a reshape of a reshape only the last one stays in the graph."""
    source: Tensor = getattr(x, "reshape_of", x)
    if sizes_of(source) == tuple(shape):
        return source
    # pnnx cannot write a reshape to no dimensions.
    result = source.reshape(tuple(shape)) if len(shape) else source.reshape(1).squeeze(0)
    annotate(result, "reshape_of", source)
    return constant(result) if is_constant(x) else result


def axis_of(x: Tensor, dim: int) -> int:
    """The dimension counted from the front."""
    return dim % max(x.ndim, 1)


def as_three(x: Tensor, dim: int) -> Tensor:
    """``outer × dim × inner``."""
    shape = sizes_of(x)
    return reshape(x, (math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])))


def is_front(x: Tensor, dim: int) -> bool:
    """Return True if pnnx may take a dimension for the batch, and then leaves it alone."""
    return dim == 0 and sizes_of(x)[0] != 1 and x.ndim > 1 and not is_constant(x)


def narrow(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """``length`` elements of one dimension from ``start`` on."""
    dim = axis_of(x, dim)
    if (start, length) == (0, sizes_of(x)[dim]):
        return x
    shape = (*sizes_of(x)[:dim], length, *sizes_of(x)[dim + 1 :])
    if x.ndim <= MAX_RANK and not is_front(x, dim):
        return _cut(x, dim, start, length)
    return reshape(_cut(as_three(x, dim), 1, start, length), shape)


def _cut(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    # pnnx knows a slice, and not narrow.
    piece: Tensor = torch.ops.aten.slice(x, dim, start, start + length)
    return piece


@lowers("view", "reshape", "_unsafe_view", "_reshape_alias")
def lower_view(x: Tensor, shape: Sequence[int], *_: Any) -> Tensor:
    known = -math.prod(shape)
    shape = [count_of(x) // known if size == -1 else size for size in shape] if known > 0 else shape
    return reshape(x, shape)


@lowers("view_as", "reshape_as")
def lower_view_as(x: Tensor, other: Tensor) -> Tensor:
    return reshape(x, sizes_of(other))


@lowers("flatten")
def lower_flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    first, last = axis_of(x, start_dim), axis_of(x, end_dim)
    merged = math.prod(sizes_of(x)[first : last + 1])
    return reshape(x, (*sizes_of(x)[:first], merged, *sizes_of(x)[last + 1 :]))


@lowers("unflatten")
def lower_unflatten(x: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    dim = axis_of(x, dim)
    rest = sizes_of(x)[dim] // -math.prod(sizes) if -1 in sizes else 0
    sizes = [rest if size == -1 else size for size in sizes]
    return reshape(x, (*sizes_of(x)[:dim], *sizes, *sizes_of(x)[dim + 1 :]))


@lowers("unsqueeze")
def lower_unsqueeze(x: Tensor, dim: int) -> Tensor:
    dim = dim % (x.ndim + 1)
    return reshape(x, (*sizes_of(x)[:dim], 1, *sizes_of(x)[dim:]))


@lowers("squeeze")
def lower_squeeze(x: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    if dim is None:
        dims = set(range(x.ndim))
    else:
        dims = {axis_of(x, each) for each in ([dim] if isinstance(dim, int) else dim)}
    return reshape(x, [n for axis, n in enumerate(sizes_of(x)) if not (axis in dims and n == 1)])


@lowers("permute")
def lower_permute(x: Tensor, dims: Sequence[int]) -> Tensor:
    order = [axis_of(x, dim) for dim in dims]
    shape = [sizes_of(x)[axis] for axis in order]
    moved = [axis for axis in order if sizes_of(x)[axis] != 1]
    if moved == sorted(moved):  # only dimensions of size one change places
        return reshape(x, shape)
    if x.ndim <= MAX_RANK:
        return x.permute(order)
    return reshape(_permute_blocks(x, moved), shape)


def _permute_blocks(x: Tensor, order: list[int]) -> Tensor:
    """Permute by exchanging neighbouring blocks, one pair at a time: each is a 4-D permute."""
    groups: list[list[int]] = []
    for axis in order:  # axes that stay neighbours move as one
        kept = [each for each in range(x.ndim) if sizes_of(x)[each] != 1]
        if groups and kept.index(axis) == kept.index(groups[-1][-1]) + 1:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    wanted = [(group[0], math.prod(sizes_of(x)[axis] for axis in group)) for group in groups]
    now = sorted(wanted)
    if len(now) <= MAX_RANK:
        merged = reshape(x, [size for _, size in now])
        return merged.permute([now.index(group) for group in wanted])
    for place, group in enumerate(wanted):
        found = now.index(group)
        if found == place:
            continue
        sizes = [size for _, size in now]
        parts = (sizes[:place], sizes[place:found], sizes[found : found + 1], sizes[found + 1 :])
        x = reshape(x, [math.prod(part) for part in parts]).permute(0, 2, 1, 3)
        now.insert(place, now.pop(found))
    return x


@lowers("transpose", "swapaxes", "swapdims")
def lower_transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    order = list(range(x.ndim))
    first, second = axis_of(x, dim0), axis_of(x, dim1)
    order[first], order[second] = order[second], order[first]
    return lower_permute(x, order)


@lowers("movedim")
def lower_movedim(
    x: Tensor, source: int | Sequence[int], destination: int | Sequence[int]
) -> Tensor:
    sources = [source] if isinstance(source, int) else list(source)
    places = [destination] if isinstance(destination, int) else list(destination)
    goal = {
        axis_of(x, place): axis_of(x, axis) for axis, place in zip(sources, places, strict=True)
    }
    rest = iter([axis for axis in range(x.ndim) if axis not in goal.values()])
    return lower_permute(
        x, [goal[place] if place in goal else next(rest) for place in range(x.ndim)]
    )


@lowers("t", "numpy_T", "mT")
def lower_t(x: Tensor) -> Tensor:
    return x if x.ndim < 2 else lower_transpose(x, -1, -2)


@lowers(
    "contiguous",
    "clone",
    "detach",
    "alias",
    "lift_fresh",
    "dropout",
    "alpha_dropout",
    "feature_alpha_dropout",
    "feature_dropout",
    "native_dropout",
)
def lower_identity(x: Tensor, *_: Any, **__: Any) -> Tensor:
    return x


@lowers("slice")
def lower_slice(
    x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    dim = axis_of(x, dim)
    first, last, step = slice(start, end, step).indices(sizes_of(x)[dim])
    count = len(range(first, last, step))
    if not count:  # for a concatenation to leave out
        return constant(torch.zeros((*sizes_of(x)[:dim], 0, *sizes_of(x)[dim + 1 :])))
    if step == 1:
        return narrow(x, dim, first, count)
    return _every(x, dim, first, count, step)


def _every(x: Tensor, dim: int, first: int, count: int, step: int) -> Tensor:
    """Every ``step``-th element: groups of ``step``, of which the first element stays."""
    shape = (*sizes_of(x)[:dim], count, *sizes_of(x)[dim + 1 :])
    whole = count if first + count * step <= sizes_of(x)[dim] else count - 1
    pieces = []
    if whole:
        groups = as_three(narrow(x, dim, first, whole * step), dim)
        outer, _, inner = sizes_of(groups)
        # The step and what follows share a dimension, so that the rank stays three.
        groups = _cut(reshape(groups, (outer, whole, step * inner)), 2, 0, inner)
        pieces.append(groups)
    if whole < count:
        pieces.append(as_three(narrow(x, dim, first + whole * step, 1), dim))
    return reshape(torch.cat(pieces, 1) if len(pieces) > 1 else pieces[0], shape)


@lowers("select")
def lower_select(x: Tensor, dim: int, index: int) -> Tensor:
    dim = axis_of(x, dim)
    piece = narrow(x, dim, index % sizes_of(x)[dim], 1)
    return reshape(piece, (*sizes_of(x)[:dim], *sizes_of(x)[dim + 1 :]))


@lowers("narrow")
def lower_narrow(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    return narrow(x, dim, int(start) % max(sizes_of(x)[dim], 1) if length else 0, length)


@lowers("split", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes")
def lower_split(x: Tensor, sizes: int | Sequence[int], dim: int = 0) -> list[Tensor]:
    total = sizes_of(x)[dim]
    if isinstance(sizes, int):
        sizes = [min(sizes, total - start) for start in range(0, total, sizes)]
    starts = [0, *accumulate(sizes)]
    return [narrow(x, dim, start, size) for start, size in zip(starts, sizes, strict=False)]


@lowers("chunk", "unsafe_chunk")
def lower_chunk(x: Tensor, chunks: int, dim: int = 0) -> list[Tensor]:
    return lower_split(x, -(-sizes_of(x)[dim] // chunks), dim)


@lowers("tensor_split")
def lower_tensor_split(x: Tensor, sections: int | Sequence[int], dim: int = 0) -> list[Tensor]:
    total = sizes_of(x)[dim]
    if isinstance(sections, int):
        small, larger = divmod(total, sections)
        sizes = [small + (place < larger) for place in range(sections)]
    else:
        edges = [0, *sections, total]
        sizes = [after - before for before, after in pairwise(edges)]
    return lower_split(x, sizes, dim)


@lowers("unbind")
def lower_unbind(x: Tensor, dim: int = 0) -> list[Tensor]:
    return [lower_select(x, dim, index) for index in range(sizes_of(x)[dim])]


@lowers("cat", "concat", "concatenate")
def lower_cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    tensors = [as_float(each) for each in tensors if count_of(each)]
    if len(tensors) == 1:
        return tensors[0]
    first = tensors[0]
    dim = axis_of(first, dim)
    if first.ndim <= MAX_RANK and (dim or first.ndim == 1):
        return torch.cat(tensors, dim)
    total = sum(sizes_of(each)[dim] for each in tensors)
    shape = (*sizes_of(first)[:dim], total, *sizes_of(first)[dim + 1 :])
    return reshape(torch.cat([as_three(each, dim) for each in tensors], 1), shape)


@lowers("stack")
def lower_stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    dim = dim % (tensors[0].ndim + 1)
    return lower_cat([lower_unsqueeze(each, dim) for each in tensors], dim)


@lowers("expand")
def lower_expand(x: Tensor, size: Sequence[int], *_: Any, **__: Any) -> Tensor:
    shape = [1] * (len(size) - x.ndim) + list(sizes_of(x))
    counts = [
        wanted if own == 1 and wanted != -1 else 1 for own, wanted in zip(shape, size, strict=True)
    ]
    result = lower_repeat(x, counts)
    if x.ndim == len(size) and all(count == 1 for count in counts[:-1]):
        annotate(result, "rows_of", x)
    return result


@lowers("expand_as")
def lower_expand_as(x: Tensor, other: Tensor) -> Tensor:
    return lower_expand(x, sizes_of(other))


@lowers("copy")
def lower_copy(x: Tensor, src: Tensor, *_: Any) -> Tensor:
    return lower_expand(src, sizes_of(x))


@lowers("broadcast_to")
def lower_broadcast_to(x: Tensor, size: Sequence[int]) -> Tensor:
    return lower_expand(x, size)


@lowers("broadcast_tensors")
def lower_broadcast_tensors(tensors: Sequence[Tensor]) -> list[Tensor]:
    broadcast: Any = torch.broadcast_shapes
    shape = tuple(broadcast(*map(sizes_of, tensors)))
    return [lower_expand(each, shape) for each in tensors]


@lowers("repeat", "tile")
def lower_repeat(x: Tensor, repeats: Sequence[int]) -> Tensor:
    repeats = [1] * (x.ndim - len(repeats)) + list(repeats)
    x = reshape(x, [1] * (len(repeats) - x.ndim) + list(sizes_of(x)))
    for dim, count in enumerate(repeats):
        if count != 1:
            shape = (*sizes_of(x)[:dim], sizes_of(x)[dim] * count, *sizes_of(x)[dim + 1 :])
            flat = as_three(x, dim)
            x = reshape(torch.cat([flat] * count, 1), shape)
    return x


@lowers("repeat_interleave")
def lower_repeat_interleave(x: Tensor, repeats: int, dim: int | None = None, **_: Any) -> Tensor:
    if dim is None:
        x, dim = reshape(x, (count_of(x),)), 0
    dim = axis_of(x, dim)
    shape = (*sizes_of(x)[:dim], sizes_of(x)[dim] * repeats, *sizes_of(x)[dim + 1 :])
    flat = as_three(x, dim)
    return reshape(torch.cat([flat] * repeats, 2), shape)


@lowers("roll")
def lower_roll(x: Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> Tensor:
    if not dims:
        return reshape(lower_roll(reshape(x, (count_of(x),)), shifts, [0]), sizes_of(x))
    for shift, dim in zip(shifts, dims, strict=True):
        size = sizes_of(x)[dim]
        cut = -shift % size
        if cut:
            x = lower_cat([narrow(x, dim, cut, size - cut), narrow(x, dim, 0, cut)], dim)
    return x


@lowers("slice_scatter")
def lower_slice_scatter(
    x: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    dim = axis_of(x, dim)
    size = sizes_of(x)[dim]
    first, last, step = slice(start, end, step).indices(size)
    count = len(range(first, last, step))
    if count > 1 and step > 1:
        return _put_every(x, src, dim, first, step)
    pieces = [narrow(x, dim, 0, first)] if first else []
    pieces.append(src)
    if first + count < size:
        pieces.append(narrow(x, dim, first + count, size - first - count))
    return lower_cat(pieces, dim)


def _put_every(x: Tensor, src: Tensor, dim: int, first: int, step: int) -> Tensor:
    """Groups of ``step`` elements, the first of which is exchanged; then one more, if it fits."""
    size, count = sizes_of(x)[dim], sizes_of(src)[dim]
    whole = min(count, (size - first) // step)
    end = first + whole * step
    groups = as_three(narrow(x, dim, first, end - first), dim)
    outer, _, inner = sizes_of(groups)
    kept = _cut(reshape(groups, (outer, whole, step * inner)), 2, inner, (step - 1) * inner)
    new = reshape(narrow(src, dim, 0, whole), (outer, whole, inner))
    groups = torch.cat([as_float(new), as_float(kept)], 2)
    pieces = [narrow(x, dim, 0, first)] if first else []
    pieces.append(reshape(groups, (*sizes_of(x)[:dim], end - first, *sizes_of(x)[dim + 1 :])))
    if whole < count:
        pieces.append(narrow(src, dim, whole, 1))
        end += 1
    if end < size:
        pieces.append(narrow(x, dim, end, size - end))
    return lower_cat(pieces, dim)


@lowers("select_scatter")
def lower_select_scatter(x: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    index %= sizes_of(x)[dim]
    return lower_slice_scatter(x, lower_unsqueeze(src, axis_of(x, dim)), dim, index, index + 1)
