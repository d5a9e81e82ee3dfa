"""Random tensors within the value ranges of other tensors.

Imported only when torch is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def draw_values(tensor: Tensor, generator: torch.Generator) -> Tensor:
    """Return random values between the smallest and largest value of a tensor, in its shape.

    A tensor with exactly two different values is treated as a mask: its last axis is permuted. If
    all values are the same float, the range is extended upwards: zeros become values from 0 to 1.
    Infinite and NaN values, integers that are all equal, and complex tensors are not changed.

    Args:
        tensor: A tensor of any dtype.
        generator: The random number generator.

    Example:
        >>> drawn = draw_values(torch.zeros(100), torch.Generator())
        >>> bool(drawn.min() >= 0), bool(drawn.max() > 0.5)
        (True, True)
    """
    finite = tensor[tensor.isfinite()]
    if not finite.numel() or tensor.is_complex():
        return tensor.clone()
    low, high = finite.min(), finite.max()
    # Not with two elements: these can have only two values.
    is_mask = low != high and finite.numel() > 2 and ((finite == low) | (finite == high)).all()
    if is_mask:  # permuted, so that no more rows are masked out than before
        return tensor[..., torch.randperm(tensor.shape[-1], generator=generator)]
    if tensor.is_floating_point():
        if low == high:  # such as zeros after a dead activation
            largest = torch.finfo(tensor.dtype).max
            high = (low + low.abs().clamp(min=1.0)).clamp(max=largest)
        # Drawn on the CPU, so that the values are the same on every device.
        share = torch.rand(tensor.shape, generator=generator).to(tensor)
        drawn = low * (1 - share) + high * share  # not from high - low, which may be infinite
    elif low == high:  # equal integers may be a size, or the index of a table's only row
        return tensor.clone()
    else:
        end = min(int(high) + 1, torch.iinfo(torch.int64).max)  # randint() accepts no larger end
        drawn = torch.randint(int(low), end, tensor.shape, generator=generator)
    return torch.where(tensor.isfinite(), drawn.to(tensor), tensor)
