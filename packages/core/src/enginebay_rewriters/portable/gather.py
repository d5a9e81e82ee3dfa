"""Lowerings of operators that read by index, such as gather and index_select.

A constant index becomes slices where possible. Otherwise, sums over one-hot masks select elements.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from enginebay.errors import ConversionError
from enginebay_rewriters.portable.common import (
    axis_of,
    cat_parts,
    lowers,
    one_hot_mask,
    sum_one_hot,
    sum_selected_rows,
    torch,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from enginebay.authors import LoweringContext

#: The number of slices up to which a lookup by a constant index is a concatenation.
_MAX_SLICES = 64


@lowers("index_select")
def index_select(ctx: LoweringContext, x: Tensor, dim: int, index: Tensor) -> Tensor:
    if x.ndim == 0:
        return x.clone()
    dim, index = axis_of(x, dim), index.reshape(-1)
    if ctx.is_constant(index):
        runs = _find_runs(ctx.value_of(index).tolist())
        if len(runs) <= _MAX_SLICES:
            return cat_parts([x.narrow(dim, start, length) for start, length in runs], dim)
    front = x.movedim(dim, 0)
    rows = sum_selected_rows(one_hot_mask(index, x.shape[dim]), front.reshape(x.shape[dim], -1))
    return rows.reshape(index.shape[0], *front.shape[1:]).movedim(0, dim)


def _find_runs(positions: list[int]) -> list[tuple[int, int]]:
    """Return (start, length) of each run of consecutive indices; [(0, 0)] for an empty list."""
    runs: list[tuple[int, int]] = []
    for position in positions:
        if runs and position == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((position, 1))
    return runs or [(0, 0)]


@lowers("gather")
def gather(
    ctx: LoweringContext, x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False
) -> Tensor:
    if x.ndim == 0 or index.ndim == 0:
        result = gather(ctx, x.reshape(-1), 0, index.reshape(-1))
        return result.reshape(index.shape)
    dim = axis_of(x, dim)
    # torch allows an index that is smaller than x in the other dimensions.
    for axis, size in enumerate(index.shape):
        x = x if axis == dim else x.narrow(axis, 0, size)
    if ctx.is_constant(index) and index.numel() and (row := _common_row(ctx, index, dim)):
        return x.index_select(dim, ctx.constant(row, x.device))
    rows, positions = x.movedim(dim, -1), index.movedim(dim, -1)
    return _gather_last(rows, positions).movedim(-1, dim)


def _common_row(ctx: LoweringContext, index: Tensor, dim: int) -> list[int] | None:
    """Return one row along ``dim`` of a constant index if all of its rows are equal, else None."""
    rows = ctx.value_of(index).swapaxes(dim, -1).reshape(-1, index.shape[dim])
    positions: list[int] = rows[0].tolist()
    return positions if (rows == rows[:1]).all() else None


def _gather_last(rows: Tensor, positions: Tensor) -> Tensor:
    """Return ``out`` with ``out[..., i] = rows[..., positions[..., i]]``."""
    if rows.is_complex():
        return torch.complex(_gather_last(rows.real, positions), _gather_last(rows.imag, positions))
    chosen = one_hot_mask(positions, rows.shape[-1])
    return sum_one_hot(torch.where(chosen, rows.unsqueeze(-2), rows.new_zeros(())), -1)


@lowers("index")
def index_tensor(ctx: LoweringContext, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    used, positions = flatten_indices(ctx, x, indices)
    order = [*used, *(dim for dim in range(x.ndim) if dim not in used)]
    sizes = [x.shape[dim] for dim in order]
    count, rest = math.prod(sizes[: len(used)]), sizes[len(used) :]
    table = x.permute(order).reshape(count, *rest)
    result = table.index_select(0, positions.reshape(-1)).reshape(*positions.shape, *rest)
    if used != list(range(used[0], used[-1] + 1)):
        return result
    # If the indexed dimensions are adjacent, the result's new dimensions replace them in place.
    front = [positions.ndim + dim for dim in range(used[0])]
    back = range(positions.ndim + used[0], result.ndim)
    return result.permute(*front, *range(positions.ndim), *back)


def flatten_indices(
    ctx: LoweringContext, x: Tensor, indices: Sequence[Tensor | None]
) -> tuple[list[int], Tensor]:
    """Return the indexed dimensions of ``x``, and the indices into them as one index tensor.

    The index tensor refers to the indexed dimensions after they are flattened to one.
    """
    used: list[int] = []
    parts: list[Tensor] = []
    for each in indices:
        if each is None:
            used.append(-1)
        elif each.dtype in (torch.bool, torch.uint8):
            # Only a constant mask: the result's size would otherwise depend on the inputs.
            axes = ctx.value_of(each).nonzero()
            parts += [ctx.constant(axis, x.device) for axis in axes]
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
    return index_tensor(ctx, x.reshape(-1), [index])


@lowers("embedding")
def embedding(
    ctx: LoweringContext, weight: Tensor, indices: Tensor, *_: object, **__: object
) -> Tensor:
    result = weight.index_select(0, indices.reshape(-1))
    return result.reshape(*indices.shape, *weight.shape[1:])


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
    positions = start + torch.arange(count, device=x.device) * (columns + 1)
    return last.reshape(*front, rows * columns).index_select(-1, positions)


@lowers("unfold", "unfold_copy")
def unfold(ctx: LoweringContext, x: Tensor, dimension: int, size: int, step: int) -> Tensor:
    if x.ndim == 0:
        return x.reshape(1)[:size]
    dim = axis_of(x, dimension)
    count = (x.shape[dim] - size) // step + 1
    parts = [x.narrow(dim, position * step, size) for position in range(count)]
    if size < count:  # strided slices, since they are fewer
        ends = [position + (count - 1) * step + 1 for position in range(size)]
        slices = [
            torch.ops.aten.slice(x, dim, position, end, step) for position, end in enumerate(ends)
        ]
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
    # The elements are looked up by their memory offsets, which depend on the tensor's strides.
    offset = int(x.storage_offset())
    existing = _memory_offsets(x.shape, x.stride(), offset)
    requested = _memory_offsets(size, stride, offset if storage_offset is None else storage_offset)
    elements = {position: element for element, position in enumerate(existing)}
    if not elements.keys() >= set(requested):
        raise ConversionError("as_strided reads memory outside of its input tensor")
    positions = ctx.constant([elements[position] for position in requested], x.device)
    return x.reshape(-1).index_select(0, positions).reshape(tuple(size))


def _memory_offsets(sizes: Sequence[int], strides: Sequence[int], offset: int) -> list[int]:
    """Return the memory offsets of a tensor's elements, in row-major order."""
    positions = [offset]
    for size, stride in zip(sizes, strides, strict=True):
        positions = [position + step * stride for position in positions for step in range(size)]
    return positions


@lowers("masked_scatter")
def masked_scatter(ctx: LoweringContext, x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    broadcast: Any = torch.broadcast_shapes  # untyped in torch 2.13
    shape = broadcast(x.shape, mask.shape)
    if not mask.numel() or not source.numel():
        return x.expand(shape).clone()
    flat = mask.expand(shape).reshape(-1)
    # The n-th true element of the mask gets the n-th element of the source.
    positions = (flat.to(torch.int64).cumsum(0) - 1).clamp(0, source.numel() - 1)
    result = source.reshape(-1).index_select(0, positions)
    return torch.where(flat, result, x.expand(shape).reshape(-1)).reshape(shape)


@lowers("repeat_interleave.Tensor")
def repeat_interleave(
    ctx: LoweringContext, repeats: Tensor, *, output_size: int | None = None
) -> Tensor:
    """Return the index of the repeated element for each position of the output.

    This index is the number of elements whose repetitions all come before the position.
    """
    size = output_size if output_size is not None else int(ctx.value_of(repeats).sum())
    ends = repeats.cumsum(0)
    positions = torch.arange(size, device=repeats.device).unsqueeze(-1)
    return (positions >= ends).sum(-1).to(repeats.dtype)
