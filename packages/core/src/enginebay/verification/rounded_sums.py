"""PyTorch with other roundings; importing this imports torch."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry  # torch's own list of what sums products


class RoundedSums(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """While it is entered, every sum of products in PyTorch is off by a rounding at random.

    Args:
        unit: The largest relative error.
        seed: Other seeds, other roundings.

    Example:
        >>> ones = torch.ones(2, 2)
        >>> with RoundedSums(2**-23, seed=0):
        ...     product = ones @ ones
        >>> bool(0 < (product - 2).abs().max() <= 2**-22)
        True
    """

    def __init__(self, unit: float, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._unit = unit
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call an operator, and round its result where it sums products."""
        result = func(*args, **(kwargs or {}))
        total = result[0] if isinstance(result, tuple) else result
        if func.overloadpacket in flop_registry and total.is_floating_point():
            errors = torch.rand(total.shape, generator=self._generator) * 2 - 1
            total.mul_(1 + self._unit * errors.to(total.device))
        return result
