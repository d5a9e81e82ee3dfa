"""The set of the portable lowerings, their decorators, and helpers of several files."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

from enginebay.rewriting.declaration import RewriterSet
from enginebay.rewriting.lowering.graph_values import constant
from enginebay.rewriting.rewriter import CORE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from torch import Tensor
else:

    class _Torch:
        """torch, imported at its first use: rewriters can be listed without torch."""

        def __getattr__(self, name):
            import torch

            return getattr(torch, name)

    torch = _Torch()

__all__ = [
    "axis_of",
    "cat_parts",
    "constant",
    "is_open",
    "lowerings",
    "lowers",
    "lowers_complex",
    "one_hot_mask",
    "sum_one_hot",
    "sum_selected_rows",
    "torch",
]

lowerings = RewriterSet(distribution=CORE)

_F = TypeVar("_F", bound="Callable[..., Any]")

#: The number of elements up to which rows are selected by ``where`` and a sum, which keeps
#: infinities and NaN in their rows. For more, a matrix product is used: less memory, but one NaN
#: or infinity would reach every row.
_MAX_WHERE_ELEMENTS = 2**20


def lowers_complex(*names: str) -> Callable[[_F], _F]:
    """Declare a lowering for complex numbers, for engines and exporters that lack the operators."""

    def decorate(function: _F) -> _F:
        for name in names:
            lowerings.lowering(f"aten.{name}", needs=("lacking", "complex"))(function)
        return function

    return decorate


def lowers(*names: str, open_sizes: bool = False, torch: str | None = None) -> Callable[[_F], _F]:
    """Declare a lowering of one or several operators, for engines that lack them.

    Args:
        names: The operators.
        open_sizes: True if it also accepts tensors with dynamic sizes.
        torch: The range of torch versions that have the operators; None for all.
    """

    def decorate(function: _F) -> _F:
        for name in names:
            needs = ("lacking",) if open_sizes else ("lacking", "dims")
            versions = {"torch": torch} if torch else None
            lowerings.lowering(f"aten.{name}", needs=needs, versions=versions)(function)
        return function

    return decorate


def axis_of(x: Tensor, dim: int) -> int:
    """Return the dimension's non-negative index."""
    return dim % x.ndim if x.ndim else 0


def is_open(x: Tensor, dim: int) -> bool:
    """Return True if a dimension's size is dynamic, so that the number of steps is unknown."""
    return x.ndim > 0 and not isinstance(x.shape[dim], int)


def one_hot_mask(index: Tensor, size: int) -> Tensor:
    """Return a one-hot encoding of an index as bools: ``[..., size]``."""
    return index.unsqueeze(-1) == torch.arange(size, device=index.device)


def cat_parts(parts: Sequence[Tensor], dim: int) -> Tensor:
    """Concatenate parts; a single part is returned without a ``cat``."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim)


def sum_selected_rows(chosen: Tensor, x: Tensor) -> Tensor:
    """Sum, for each row of a mask, the rows of ``x`` that it selects.

    Args:
        chosen: The mask, ``[count, size]``, bool.
        x: ``[size, inner]``.

    Returns:
        ``[count, inner]``.
    """
    if x.is_complex():
        return torch.complex(sum_selected_rows(chosen, x.real), sum_selected_rows(chosen, x.imag))
    elements = math.prod(chosen.shape) * x.shape[1]
    if x.dtype.is_floating_point and elements > _MAX_WHERE_ELEMENTS:
        return chosen.to(x.dtype) @ x
    zero = False if x.dtype is torch.bool else 0
    return sum_one_hot(torch.where(chosen.unsqueeze(-1), x, zero), 1)


def sum_one_hot(x: Tensor, dim: int) -> Tensor:
    """Sum a dimension that has at most one element other than zero, in the tensor's dtype."""
    return (x.sum(dim) > 0) if x.dtype is torch.bool else x.sum(dim, dtype=x.dtype)
