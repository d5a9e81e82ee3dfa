"""What every file of this folder uses."""

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
        """torch, imported at its first use: rewriters are listed where it is not installed."""

        def __getattr__(self, name):
            import torch

            return getattr(torch, name)

    torch = _Torch()

__all__ = [
    "axis_of",
    "constant",
    "is_chosen",
    "is_open",
    "joined",
    "lowerings",
    "lowers",
    "of_complex",
    "spread",
    "torch",
    "total",
]

lowerings = RewriterSet(distribution=CORE)

_F = TypeVar("_F", bound="Callable[..., Any]")

#: Up to so many elements are chosen by ``where`` and summed, which leaves infinities and NaN where
#: they are; above it is a product of matrices, for which all numbers must be finite.
_CHOSEN = 2**20


def of_complex(*names: str) -> Callable[[_F], _F]:
    """Declare what operators do to complex numbers, for engines and exporters that lack these."""

    def decorate(function: _F) -> _F:
        for name in names:
            lowerings.lowering(f"aten.{name}", needs=("lacking", "complex"))(function)
        return function

    return decorate


def lowers(*names: str, open_sizes: bool = False, torch: str | None = None) -> Callable[[_F], _F]:
    """Declare a lowering of one or several operators, for engines that lack them.

    Args:
        names: The operators.
        open_sizes: True if it also serves tensors of which sizes are open.
        torch: The versions of torch that have them, if not all have.
    """

    def decorate(function: _F) -> _F:
        for name in names:
            needs = ("lacking",) if open_sizes else ("lacking", "dims")
            versions = {"torch": torch} if torch else None
            lowerings.lowering(f"aten.{name}", needs=needs, versions=versions)(function)
        return function

    return decorate


def axis_of(x: Tensor, dim: int) -> int:
    """Return a dimension counted from the front."""
    return dim % x.ndim if x.ndim else 0


def is_open(x: Tensor, dim: int) -> bool:
    """Return True if a dimension's size is open: the number of steps is the graph's own."""
    return x.ndim > 0 and not isinstance(x.shape[dim], int)


def is_chosen(index: Tensor, size: int) -> Tensor:
    """Return ``[..., size]``: true at the place that the index names."""
    return index.unsqueeze(-1) == torch.arange(size, device=index.device)


def joined(parts: Sequence[Tensor], dim: int) -> Tensor:
    """Return a concatenation, without one where there is but one part."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim)


def spread(chosen: Tensor, x: Tensor) -> Tensor:
    """Return ``[count, inner]``: for each row of ``chosen`` the sum of the rows of ``x`` it names.

    Args:
        chosen: ``[count, size]``, bool.
        x: ``[size, inner]``.
    """
    if x.is_complex():
        return torch.complex(spread(chosen, x.real), spread(chosen, x.imag))
    if x.dtype.is_floating_point and math.prod(chosen.shape) * x.shape[1] > _CHOSEN:
        return chosen.to(x.dtype) @ x
    nothing = False if x.dtype is torch.bool else 0
    return total(torch.where(chosen.unsqueeze(-1), x, nothing), 1)


def total(x: Tensor, dim: int) -> Tensor:
    """Return a sum in the tensor's own dtype, where all elements but one are zero."""
    return (x.sum(dim) > 0) if x.dtype is torch.bool else x.sum(dim, dtype=x.dtype)
