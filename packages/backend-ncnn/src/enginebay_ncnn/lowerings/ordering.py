"""Lowerings of minima, maxima and sorting; sorting compares every pair of elements.

ncnn has no sort layer. NaN, which torch sorts to the end, is not handled: ncnn does not support it.
"""

# ruff: noqa: ARG001, D103 - each takes the arguments of its operator
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import enginebay as eb
from enginebay_ncnn.lowerings.common import LACKING, torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from enginebay.authors import LoweringContext

lowerings = eb.RewriterSet(backend="ncnn")


def _select_first(x: Tensor, dim: int, count: int, descending: bool) -> tuple[Tensor, Tensor]:
    """Sort along a dimension; return the first ``count`` elements and their indices."""
    if not x.ndim:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    moved = x.movedim(dim, -1)
    *front, size = moved.shape
    rows = moved.reshape(-1, size)
    keys = rows if x.dtype.is_floating_point else rows.to(torch.int64)
    left, right = keys.unsqueeze(2), keys.unsqueeze(1)
    # The rank of an element is the number of elements before it: the smaller ones, and the equal
    # ones with a smaller index. The signs of the differences are −1, 0 or 1, to which ½ is added
    # for each pair with this index order, so that equal elements count too.
    half = torch.ones(size, size, dtype=x.dtype if x.dtype.is_floating_point else None).tril(-1) / 2
    order = ((right - left) if descending else (left - right)).sign() + half
    rank = order.ceil().clamp(0, 1).sum(-1)
    chosen = rank.unsqueeze(1) == torch.arange(count, dtype=rank.dtype).unsqueeze(1)
    values = (chosen.to(keys.dtype) @ keys.unsqueeze(2)).to(x.dtype)
    indices = chosen.to(torch.int64) @ torch.arange(size).unsqueeze(1)
    shape = (*front, count)
    return values.reshape(shape).movedim(-1, dim), indices.reshape(shape).movedim(-1, dim)


@lowerings.lowering("aten.sort.default", needs=LACKING)
def lower_sort(
    ctx: LoweringContext, x: Tensor, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    return _select_first(x, dim, x.shape[dim] if x.ndim else 1, descending)


@lowerings.lowering("aten.topk", needs=LACKING)
def lower_topk(
    ctx: LoweringContext, x: Tensor, k: int, dim: int = -1, largest: bool = True, *_: Any, **__: Any
) -> tuple[Tensor, Tensor]:
    return _select_first(x, dim, k, largest)


@lowerings.lowering("aten.max.dim", needs=LACKING)
def lower_max_dim(
    ctx: LoweringContext, x: Tensor, dim: int, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    return _find_extreme(x, torch.amax, dim, keepdim)


@lowerings.lowering("aten.min.dim", needs=LACKING)
def lower_min_dim(
    ctx: LoweringContext, x: Tensor, dim: int, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    return _find_extreme(x, torch.amin, dim, keepdim)


@lowerings.lowering("aten.argmax", needs=LACKING)
def lower_argmax(
    ctx: LoweringContext, x: Tensor, dim: int | None = None, keepdim: bool = False
) -> Tensor:
    return _find_extreme_index(x, torch.amax, dim, keepdim)


@lowerings.lowering("aten.argmin", needs=LACKING)
def lower_argmin(
    ctx: LoweringContext, x: Tensor, dim: int | None = None, keepdim: bool = False
) -> Tensor:
    return _find_extreme_index(x, torch.amin, dim, keepdim)


def _find_extreme_index(
    x: Tensor, extreme: Callable[..., Tensor], dim: int | None, keepdim: bool
) -> Tensor:
    if dim is not None:
        return _find_extreme(x, extreme, dim, keepdim)[1]
    index = _find_extreme(x.reshape(-1), extreme, 0, False)[1]
    return index.reshape([1] * x.ndim) if keepdim else index


def _find_extreme(
    x: Tensor, extreme: Callable[..., Tensor], dim: int, keepdim: bool
) -> tuple[Tensor, Tensor]:
    """Return the minimum or maximum along a dimension, and the index of its first occurrence."""
    if not x.ndim:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    dim, size = dim % x.ndim, x.shape[dim]
    best = extreme(x, dim, keepdim=True)
    # Weights that decrease along the dimension: the first index has the largest.
    weights = torch.arange(size, 0, -1).reshape(size, *[1] * (x.ndim - 1 - dim))
    index = size - ((x == best).to(torch.int64) * weights).amax(dim, keepdim=True)
    return (best, index) if keepdim else (best.squeeze(dim), index.squeeze(dim))
