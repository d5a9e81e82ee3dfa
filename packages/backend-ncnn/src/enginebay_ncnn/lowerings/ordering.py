"""Sort and rank by comparing every pair of elements; ncnn has no NaN that would come last."""

# ruff: noqa: ARG001, D103 - each has the name and the arguments of its operator
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import enginebay as eb
from enginebay_ncnn.lowerings.common import LACKING, torch

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.authors import LoweringContext

lowerings = eb.RewriterSet(backend="ncnn")


def _first(x: Tensor, dim: int, count: int, descending: bool) -> tuple[Tensor, Tensor]:
    """The first elements of an order along a dimension, and where they are.

    An element's rank is how many come before it: smaller ones, and equal ones in front of it. The
    signs of all differences are −1, 0 or 1, and a half more for a pair in its order.
    """
    if not x.ndim:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    moved = x.movedim(dim, -1)
    *front, size = moved.shape
    rows = moved.reshape(-1, size)
    keys = rows if x.dtype.is_floating_point else rows.to(torch.int64)
    own, other = keys.unsqueeze(2), keys.unsqueeze(1)
    half = torch.ones(size, size, dtype=x.dtype if x.dtype.is_floating_point else None).tril(-1) / 2
    order = ((other - own) if descending else (own - other)).sign() + half
    found = order.ceil().clamp(0, 1).sum(-1)
    chosen = found.unsqueeze(1) == torch.arange(count, dtype=found.dtype).unsqueeze(1)
    values = (chosen.to(keys.dtype) @ keys.unsqueeze(2)).to(x.dtype)
    places = chosen.to(torch.int64) @ torch.arange(size).unsqueeze(1)
    shape = (*front, count)
    return values.reshape(shape).movedim(-1, dim), places.reshape(shape).movedim(-1, dim)


@lowerings.lowering("aten.sort.default", needs=LACKING)
def sort(
    ctx: LoweringContext, x: Tensor, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    return _first(x, dim, x.shape[dim] if x.ndim else 1, descending)


@lowerings.lowering("aten.topk", needs=LACKING)
def topk(
    ctx: LoweringContext, x: Tensor, k: int, dim: int = -1, largest: bool = True, *_: Any, **__: Any
) -> tuple[Tensor, Tensor]:
    return _first(x, dim, k, largest)


@lowerings.lowering("aten.max.dim", needs=LACKING)
def max_dim(
    ctx: LoweringContext, x: Tensor, dim: int, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    return _place_of(x, torch.amax, dim, keepdim)


@lowerings.lowering("aten.min.dim", needs=LACKING)
def min_dim(
    ctx: LoweringContext, x: Tensor, dim: int, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    return _place_of(x, torch.amin, dim, keepdim)


@lowerings.lowering("aten.argmax", needs=LACKING)
def argmax(
    ctx: LoweringContext, x: Tensor, dim: int | None = None, keepdim: bool = False
) -> Tensor:
    return _place_in(x, torch.amax, dim, keepdim)


@lowerings.lowering("aten.argmin", needs=LACKING)
def argmin(
    ctx: LoweringContext, x: Tensor, dim: int | None = None, keepdim: bool = False
) -> Tensor:
    return _place_in(x, torch.amin, dim, keepdim)


def _place_in(x: Tensor, extreme: Any, dim: int | None, keepdim: bool) -> Tensor:
    if dim is not None:
        return _place_of(x, extreme, dim, keepdim)[1]
    place = _place_of(x.reshape(-1), extreme, 0, False)[1]
    return place.reshape([1] * x.ndim) if keepdim else place


def _place_of(x: Tensor, extreme: Any, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """The extreme, and the first place along a dimension where it is: what most are behind."""
    if not x.ndim:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    dim, size = dim % x.ndim, x.shape[dim]
    best = extreme(x, dim, keepdim=True)
    behind = torch.arange(size, 0, -1).reshape(size, *[1] * (x.ndim - 1 - dim))
    place = size - ((x == best).to(torch.int64) * behind).amax(dim, keepdim=True)
    return (best, place) if keepdim else (best.squeeze(dim), place.squeeze(dim))
