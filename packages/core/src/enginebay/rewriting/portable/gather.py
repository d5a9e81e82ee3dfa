"""Look-ups: slices where the places are known, sums over all places else."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from enginebay.errors import ConversionError
from enginebay.rewriting.portable.common import (
    axis_of,
    constant,
    is_chosen,
    joined,
    lowers,
    spread,
    torch,
    total,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from enginebay.rewriting.lowering import LoweringContext

#: Up to so many runs of neighbours, a look-up at known places is a concatenation of slices.
_RUNS = 64


@lowers("index_select")
def index_select(ctx: LoweringContext, x: Tensor, dim: int, index: Tensor) -> Tensor:
    if x.ndim == 0:
        return x.clone()
    dim, index = axis_of(x, dim), index.reshape(-1)
    if ctx.is_constant(index):
        runs = _runs(ctx.value_of(index).tolist())
        if len(runs) <= _RUNS:
            return joined([x.narrow(dim, start, length) for start, length in runs], dim)
    front = x.movedim(dim, 0)
    rows = spread(is_chosen(index, x.shape[dim]), front.reshape(x.shape[dim], -1))
    return rows.reshape(index.shape[0], *front.shape[1:]).movedim(0, dim)


def _runs(places: list[int]) -> list[tuple[int, int]]:
    """Places as starts and lengths of neighbours; of none one empty run."""
    runs: list[tuple[int, int]] = []
    for place in places:
        if runs and place == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((place, 1))
    return runs or [(0, 0)]


@lowers("gather")
def gather(
    ctx: LoweringContext, x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False
) -> Tensor:
    if x.ndim == 0 or index.ndim == 0:
        found = gather(ctx, x.reshape(-1), 0, index.reshape(-1))
        return found.reshape(index.shape)
    dim = axis_of(x, dim)
    for axis, size in enumerate(index.shape):
        x = x if axis == dim else x.narrow(axis, 0, size)
    if ctx.is_constant(index) and index.numel() and (same := _same_rows(ctx, index, dim)):
        return x.index_select(dim, constant(same, x.device))
    rows, places = x.movedim(dim, -1), index.movedim(dim, -1)
    return _at(rows, places).movedim(-1, dim)


def _same_rows(ctx: LoweringContext, index: Tensor, dim: int) -> list[int] | None:
    """The places along a dimension, if they are the same in every row."""
    rows = ctx.value_of(index).swapaxes(dim, -1).reshape(-1, index.shape[dim])
    places: list[int] = rows[0].tolist()
    return places if (rows == rows[:1]).all() else None


def _at(rows: Tensor, places: Tensor) -> Tensor:
    """``out[..., i] = rows[..., places[..., i]]``."""
    if rows.is_complex():
        return torch.complex(_at(rows.real, places), _at(rows.imag, places))
    chosen = is_chosen(places, rows.shape[-1])
    return total(torch.where(chosen, rows.unsqueeze(-2), rows.new_zeros(())), -1)


@lowers("index")
def index_at(ctx: LoweringContext, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    used, places = used_places(ctx, x, indices)
    order = [*used, *(dim for dim in range(x.ndim) if dim not in used)]
    sizes = [x.shape[dim] for dim in order]
    count, rest = math.prod(sizes[: len(used)]), sizes[len(used) :]
    table = x.permute(order).reshape(count, *rest)
    found = table.index_select(0, places.reshape(-1)).reshape(*places.shape, *rest)
    if used != list(range(used[0], used[-1] + 1)):
        return found
    # Neighbouring indices leave what they look up in their own place.
    front = [places.ndim + dim for dim in range(used[0])]
    back = range(places.ndim + used[0], found.ndim)
    return found.permute(*front, *range(places.ndim), *back)


def used_places(
    ctx: LoweringContext, x: Tensor, indices: Sequence[Tensor | None]
) -> tuple[list[int], Tensor]:
    """Return the dimensions that are indexed, and the places in them laid flat."""
    used: list[int] = []
    parts: list[Tensor] = []
    for each in indices:
        if each is None:
            used.append(-1)
        elif each.dtype in (torch.bool, torch.uint8):
            found = ctx.value_of(each).nonzero()  # of a mask that the inputs change: no known size
            parts += [constant(axis, x.device) for axis in found]
            used += range(len(used), len(used) + each.ndim)
        else:
            parts.append(each)
            used.append(len(used))
    used = [dim for dim in used if dim >= 0]
    flat: Any = 0
    for dim, part in zip(used, parts, strict=True):
        size = x.shape[dim]
        flat = flat * size + torch.where(part < 0, part + size, part)
    return used, flat


@lowers("take")
def take(ctx: LoweringContext, x: Tensor, index: Tensor) -> Tensor:
    return index_at(ctx, x.reshape(-1), [index])


@lowers("embedding")
def embedding(ctx: LoweringContext, weight: Tensor, indices: Tensor, *_: Any, **__: Any) -> Tensor:
    found = weight.index_select(0, indices.reshape(-1))
    return found.reshape(*indices.shape, *weight.shape[1:])


@lowers("flip")
def flip(ctx: LoweringContext, x: Tensor, dims: Sequence[int]) -> Tensor:
    for dim in dims:
        if x.ndim and x.shape[dim] > 1:
            x = x.index_select(dim, torch.arange(x.shape[dim] - 1, -1, -1, device=x.device))
    return x.clone()


@lowers("diagonal", "diagonal_copy")
def diagonal(
    ctx: LoweringContext, x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    last = x.movedim((dim1, dim2), (-2, -1))
    *front, rows, columns = last.shape
    start = offset if offset >= 0 else -offset * columns
    count = max(0, min(columns - offset, rows) if offset >= 0 else min(columns, rows + offset))
    places = start + torch.arange(count, device=x.device) * (columns + 1)
    return last.reshape(*front, rows * columns).index_select(-1, places)


@lowers("unfold", "unfold_copy")
def unfold(ctx: LoweringContext, x: Tensor, dimension: int, size: int, step: int) -> Tensor:
    if x.ndim == 0:
        return x.reshape(1)[:size]
    dim = axis_of(x, dimension)
    count = (x.shape[dim] - size) // step + 1
    parts = [x.narrow(dim, place * step, size) for place in range(count)]
    if size < count:  # the fewer slices
        ends = [place + (count - 1) * step + 1 for place in range(size)]
        slices = [torch.ops.aten.slice(x, dim, place, end, step) for place, end in enumerate(ends)]
        return torch.stack(slices, -1)
    return torch.stack(parts, dim).movedim(dim + 1, -1)


@lowers("as_strided", "as_strided_copy")
def as_strided(
    ctx: LoweringContext,
    x: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """Look at the memory of the tensor that is meant: that of a transposed one has other steps."""
    offset = int(x.storage_offset())
    own = _memory(x.shape, x.stride(), offset)
    wanted = _memory(size, stride, offset if storage_offset is None else storage_offset)
    elements = {place: element for element, place in enumerate(own)}
    if not elements.keys() >= set(wanted):
        raise ConversionError("as_strided beyond the tensor that it is given")
    places = constant([elements[place] for place in wanted], x.device)
    return x.reshape(-1).index_select(0, places).reshape(tuple(size))


def _memory(sizes: Sequence[int], strides: Sequence[int], offset: int) -> list[int]:
    """The places of a tensor's elements in memory, in their order."""
    places = [offset]
    for size, stride in zip(sizes, strides, strict=True):
        places = [place + step * stride for place in places for step in range(size)]
    return places


@lowers("masked_scatter")
def masked_scatter(ctx: LoweringContext, x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Each element's place in the source is how many are true before it."""
    broadcast: Any = torch.broadcast_shapes  # which has no types
    shape = broadcast(x.shape, mask.shape)
    if not mask.numel() or not source.numel():
        return x.expand(shape).clone()
    flat = mask.expand(shape).reshape(-1)
    places = (flat.to(torch.int64).cumsum(0) - 1).clamp(0, source.numel() - 1)
    found = source.reshape(-1).index_select(0, places)
    return torch.where(flat, found, x.expand(shape).reshape(-1)).reshape(shape)


@lowers("repeat_interleave.Tensor")
def repeat_interleave(
    ctx: LoweringContext, repeats: Tensor, *, output_size: int | None = None
) -> Tensor:
    """Each place as often as it is repeated: the count of the runs that end before."""
    size = output_size if output_size is not None else int(ctx.value_of(repeats).sum())
    ends = repeats.cumsum(0)
    places = torch.arange(size, device=repeats.device).unsqueeze(-1)
    return (places >= ends).sum(-1).to(repeats.dtype)
