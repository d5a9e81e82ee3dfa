"""Other values for a tensor, within the range of those that it has.

Imported only where torch is about to be used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def redrawn(tensor: Tensor, random: torch.Generator) -> Tensor:
    """A tensor of other values: numbers between the least and the greatest one.

    A tensor of two values (a mask) has its last axis permuted, so that no row is masked out that
    was not. Where all floats are equal, as behind an activation that is dead, they reach up from
    there: 0 becomes 0 to 1. What is not finite stays, and so do integers that are equal: they may
    be a size, or the only row of a table.

    Args:
        tensor: Of any dtype.
        random: Where chance comes from.

    Example:
        >>> drawn = redrawn(torch.zeros(100), torch.Generator())
        >>> bool(drawn.min() >= 0), bool(drawn.max() > 0.5)
        (True, True)
    """
    finite = tensor[tensor.isfinite()]
    if not finite.numel() or tensor.is_complex():
        return tensor.clone()
    low, high = finite.min(), finite.max()
    is_mask = low != high and finite.numel() > 2 and ((finite == low) | (finite == high)).all()
    if is_mask:
        return tensor[..., torch.randperm(tensor.shape[-1], generator=random)]
    if tensor.is_floating_point():
        if low == high:
            high = low + low.abs().clamp(min=1.0)
        share = torch.rand(tensor.shape, generator=random).to(tensor)
        drawn = low * (1 - share) + high * share  # high - low may be infinite
    else:
        drawn = torch.randint(int(low), int(high) + 1, tensor.shape, generator=random)
    return torch.where(tensor.isfinite(), drawn.to(tensor), tensor)
