"""PyTorch with other roundings; importing this imports torch."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry  # torch's own list of what sums products


class OtherRoundings(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """While it is entered, every sum and quotient in PyTorch is off by a rounding at random.

    Sums of products are among them. Of quotients it is those of tensors.

    Args:
        unit: The largest relative error.
        seed: Other seeds, other roundings.

    Example:
        >>> ones = torch.ones(2, 2)
        >>> with OtherRoundings(2**-23, seed=0):
        ...     product = ones @ ones
        >>> bool(0 < (product - 2).abs().max() <= 2**-22)
        True
    """

    def __init__(self, unit: float, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._unit = unit
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call an operator, and round its result where it sums products or divides."""
        result = func(*args, **(kwargs or {}))
        total = result[0] if isinstance(result, tuple) else result
        if _rounds(func, args) and total.is_floating_point():
            errors = torch.rand(total.shape, generator=self._generator) * 2 - 1
            total.mul_(1 + self._unit * errors.to(total.device))
        return result


def _rounds(func: Any, args: Any) -> bool:
    """Return True for a sum, and for a quotient of which the divisor is no number."""
    aten: Any = torch.ops.aten
    if func in (aten.div.Tensor, aten.div_.Tensor):
        return isinstance(args[1], torch.Tensor)
    return func.overloadpacket in (aten.sum, aten.mean) or func.overloadpacket in flop_registry
