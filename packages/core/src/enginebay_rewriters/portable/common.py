"""The set of the portable lowerings, decorators that add to the set, and shared helpers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

from enginebay import RewriterSet
from enginebay.authors import lazy_module

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from torch import Tensor
else:
    torch = lazy_module("torch")  # so that listing rewriters needs no torch

__all__ = [
    "axis_of",
    "cat_parts",
    "is_open",
    "lowerings",
    "lowers",
    "lowers_complex",
    "one_hot_mask",
    "sum_one_hot",
    "sum_selected_rows",
    "torch",
]

lowerings = RewriterSet(fallback=True)

_F = TypeVar("_F", bound="Callable[..., Any]")

#: The number of elements up to which rows are selected by ``where`` and a sum, which keeps
#: infinities and NaN in their rows. Larger tensors are selected by a matrix product, which needs
#: less memory, but spreads a NaN or an infinity to every row.
_MAX_WHERE_ELEMENTS = 2**20


def lowers_complex(*names: str) -> Callable[[_F], _F]:
    """Return a decorator that declares a lowering of operators for calls with complex tensors."""

    def decorate(function: _F) -> _F:
        for name in names:
            lowerings.lowering(f"aten.{name}", needs=("lacking", "complex"))(function)
        return function

    return decorate


def lowers(*names: str, open_sizes: bool = False, torch: str | None = None) -> Callable[[_F], _F]:
    """Return a decorator that declares a lowering for engines that do not support the operators.

    Args:
        names: The operators' names in ``torch.ops.aten``, such as ``remainder.Tensor``.
        open_sizes: True if the lowering also accepts tensors with dynamic sizes.
        torch: The torch versions that have the operators, such as ``<2.14``; None for all.
    """

    def decorate(function: _F) -> _F:
        for name in names:
            needs = ("lacking",) if open_sizes else ("lacking", "dims")
            versions = {"torch": torch} if torch else None
            lowerings.lowering(f"aten.{name}", needs=needs, versions=versions)(function)
        return function

    return decorate


def axis_of(x: Tensor, dim: int) -> int:
    """Return the non-negative index of a dimension; 0 for a scalar tensor."""
    return dim % x.ndim if x.ndim else 0


def is_open(x: Tensor, dim: int) -> bool:
    """Return True if the size of a dimension is dynamic."""
    return x.ndim > 0 and not isinstance(x.shape[dim], int)


def one_hot_mask(index: Tensor, size: int) -> Tensor:
    """Return the one-hot encoding of an index tensor: bools of shape ``[..., size]``."""
    return index.unsqueeze(-1) == torch.arange(size, device=index.device)


def cat_parts(parts: Sequence[Tensor], dim: int) -> Tensor:
    """Concatenate tensors; a single tensor is returned as it is."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim)


def sum_selected_rows(mask: Tensor, x: Tensor) -> Tensor:
    """Return sums of rows of ``x``: each row of the mask selects the rows of one sum.

    Args:
        mask: ``[count, size]``, bool.
        x: ``[size, inner]``.

    Returns:
        ``[count, inner]``.
    """
    if x.is_complex():
        return torch.complex(sum_selected_rows(mask, x.real), sum_selected_rows(mask, x.imag))
    elements = math.prod(mask.shape) * x.shape[1]
    if x.dtype.is_floating_point and elements > _MAX_WHERE_ELEMENTS:
        return mask.to(x.dtype) @ x
    zero = False if x.dtype is torch.bool else 0
    return sum_one_hot(torch.where(mask.unsqueeze(-1), x, zero), 1)


def sum_one_hot(x: Tensor, dim: int) -> Tensor:
    """Return the sum over a dimension along which at most one element is nonzero.

    The result has the dtype of ``x``.
    """
    return (x.sum(dim) > 0) if x.dtype is torch.bool else x.sum(dim, dtype=x.dtype)
