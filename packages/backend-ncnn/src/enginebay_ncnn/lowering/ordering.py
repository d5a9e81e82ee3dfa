"""Orders and extremes: what comes before what is told by comparing every pair."""

# ruff: noqa: D103 - each lowering is documented by the operator whose name it carries
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from enginebay_ncnn.lowering.arithmetic import (
    elementwise,
    flat,
    lower_amax,
    lower_amin,
    lower_sum,
)
from enginebay_ncnn.lowering.contraction import lower_matmul
from enginebay_ncnn.lowering.layout import (
    axis_of,
    lower_cat,
    lower_permute,
    lower_squeeze,
    lower_unsqueeze,
    narrow,
    reshape,
)
from enginebay_ncnn.lowering.logic import lower_eq, lower_ge, lower_gt, lower_lt
from enginebay_ncnn.lowering.registry import (
    UnsupportedError,
    constant,
    count_of,
    lowers,
    sizes_of,
)

if TYPE_CHECKING:
    from torch import Tensor

#: Up to so many numbers are gone through one by one.
_STEPS = 64


@lowers("argmax")
def lower_argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    if dim is None:
        x, dim = reshape(x, (count_of(x),)), 0
    return _first_of(x, lower_amax(x, dim, True), dim, keepdim)


@lowers("argmin")
def lower_argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    return lower_argmax(flat(torch.neg, x), dim, keepdim)


def _first_of(x: Tensor, extreme: Tensor, dim: int, keepdim: bool) -> Tensor:
    """The first place along a dimension where a tensor is its extreme."""
    dim = axis_of(x, dim)
    size = sizes_of(x)[dim]
    places = constant(
        torch.arange(size, dtype=torch.float32).reshape([size] + [1] * (x.ndim - dim - 1))
    )
    is_there = lower_eq(x, extreme)
    return lower_amin(
        elementwise(lambda c, p: p * c + size * (1.0 - c), is_there, places), dim, keepdim
    )


@lowers("max.dim")
def lower_max_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return lower_amax(x, dim, keepdim), lower_argmax(x, dim, keepdim)


@lowers("min.dim")
def lower_min_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return lower_amin(x, dim, keepdim), lower_argmin(x, dim, keepdim)


def _order(x: Tensor, dim: int, count: int, descending: bool) -> tuple[Tensor, Tensor]:
    """The ``count`` largest or smallest along a dimension, and where they are.

    An element's place in the order is how many come before it: those that are larger, and equal
    ones in front of it.
    """
    dim = axis_of(x, dim)
    last = [*(axis for axis in range(x.ndim) if axis != dim), dim]
    rows = lower_permute(x, last)
    shape = sizes_of(rows)
    size = shape[-1]
    rows = reshape(rows, (count_of(x) // size, size))
    own, other = lower_unsqueeze(rows, 2), lower_unsqueeze(rows, 1)
    before = lower_gt(other, own) if descending else lower_lt(other, own)
    in_front = constant(torch.ones(size, size).tril(-1))
    tied = elementwise(lambda e, f: e * f, lower_eq(other, own), in_front)
    places = lower_sum(elementwise(lambda a, b: a + b, before, tied), 2)
    chosen = lower_eq(
        lower_unsqueeze(places, 1), constant(torch.arange(count).float().reshape(count, 1))
    )
    numbers = constant(torch.arange(size).float().reshape(1, size, 1))
    back = [last.index(axis) for axis in range(x.ndim)]
    results = []
    for table in (lower_unsqueeze(rows, 2), numbers):
        found = reshape(lower_matmul(chosen, table), (*shape[:-1], count))
        results.append(lower_permute(found, back))
    return results[0], results[1]


@lowers("topk")
def lower_topk(
    x: Tensor, k: int, dim: int = -1, largest: bool = True, *_: Any
) -> tuple[Tensor, Tensor]:
    return _order(x, dim, k, largest)


@lowers("sort")
def lower_sort(
    x: Tensor, dim: int = -1, descending: bool = False, **_: Any
) -> tuple[Tensor, Tensor]:
    return _order(x, dim, sizes_of(x)[dim], descending)


@lowers("sort.stable")
def lower_stable_sort(
    x: Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    del stable  # the order of equal elements is kept in any case
    return _order(x, dim, sizes_of(x)[dim], descending)


@lowers("argsort")
def lower_argsort(x: Tensor, dim: int = -1, descending: bool = False, **_: Any) -> Tensor:
    return _order(x, dim, sizes_of(x)[dim], descending)[1]


@lowers("kthvalue")
def lower_kthvalue(
    x: Tensor, k: int, dim: int = -1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    value, place = (narrow(each, dim, k - 1, 1) for each in _order(x, dim, k, False))
    return (value, place) if keepdim else (lower_squeeze(value, dim), lower_squeeze(place, dim))


@lowers("median.dim")
def lower_median_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return lower_kthvalue(x, (sizes_of(x)[dim] + 1) // 2, dim, keepdim)


@lowers("median")
def lower_median(x: Tensor) -> Tensor:
    return lower_median_dim(reshape(x, (count_of(x),)), 0)[0]


@lowers("cummax")
def lower_cummax(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The largest so far, and the last place where it was."""
    dim = axis_of(x, dim)
    size = sizes_of(x)[dim]
    if size > _STEPS:
        raise UnsupportedError(f"a running extreme of more than {_STEPS} numbers")
    values = [narrow(x, dim, 0, 1)]
    places = [flat(lambda t: t * 0.0, values[0])]
    for place in range(1, size):
        here = narrow(x, dim, place, 1)
        newer = lower_ge(here, values[-1])
        values.append(elementwise(torch.maximum, values[-1], here))
        places.append(
            elementwise(lambda n, p, at=float(place): p + n * (at - p), newer, places[-1])
        )
    return lower_cat(values, dim), lower_cat(places, dim)


@lowers("cummin")
def lower_cummin(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    values, places = lower_cummax(flat(torch.neg, x), dim)
    return flat(torch.neg, values), places
