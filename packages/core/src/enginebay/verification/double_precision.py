"""PyTorch in double precision; importing this imports torch."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from enginebay.verification.other_roundings import is_exact


class DoublePrecision(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """While it is entered, PyTorch computes in double precision what it would in single.

    The model is not copied: its weights are widened where an operator takes them. What has no
    kernel for doubles raises.

    Args:
        unit: The largest relative error of weights, as of inputs; integers and powers of two, such
            as constants of a mask, are exact.

    Example:
        >>> with DoublePrecision():
        ...     third = torch.ones(1) / 3
        >>> third.dtype
        torch.float64
    """

    def __init__(self, unit: float = 0.0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._unit = unit
        self._generator = torch.Generator().manual_seed(0)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call an operator on doubles."""
        args, kwargs = tree_map(self._wide, (args, kwargs or {}))
        # What a factory makes is single where nothing says more, and may be written into.
        return tree_map(_double, func(*args, **kwargs))

    def _wide(self, value: Any) -> Any:
        if value is torch.float32:
            return torch.float64
        wide = _double(value)
        if wide is value or not self._unit:
            return wide
        drawn = torch.rand(wide.shape, generator=self._generator) * 2 - 1
        error = self._unit * drawn.to(wide) * wide
        return torch.where(is_exact(wide), wide, wide + error)


def _double(value: Any) -> Any:
    is_single = isinstance(value, torch.Tensor) and value.dtype == torch.float32
    return value.double() if is_single else value
