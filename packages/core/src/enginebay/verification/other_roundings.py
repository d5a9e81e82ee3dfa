"""PyTorch with other roundings; importing this imports torch."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from torch.utils.flop_counter import flop_registry  # torch's own list of what sums products


class OtherRoundings(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """While it is entered, every sum, difference and quotient in PyTorch is off by roundings.

    Sums of products are among them, and of quotients those of tensors. What an operator gives is
    off by one rounding at random, and so is each number that it takes: of a sum in which large
    numbers cancel, nothing may be left but roundings of these. A tanh is a difference from one.

    Args:
        unit: The largest relative error.
        seed: Other seeds, other roundings.

    Example:
        >>> ones = torch.ones(2, 2)
        >>> with OtherRoundings(2**-23, seed=0):
        ...     product = ones @ ones
        >>> bool(0 < (product - 2).abs().max() <= 2**-20)
        True
    """

    def __init__(self, unit: float, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._unit = unit
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call an operator, with roundings where it adds, subtracts or divides."""
        rounds = _rounds(func, args)
        if rounds and not func._schema.is_mutable:
            args = tree_map_only(torch.Tensor, self._rounded, args)
        result = func(*args, **(kwargs or {}))
        total = result[0] if isinstance(result, tuple) else result
        if rounds and total.is_floating_point():
            total.mul_(self._errors(total))
        elif func.overloadpacket in _TANH:
            total.add_(self._errors(total) - 1)
        return result

    def _rounded(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor * self._errors(tensor) if tensor.is_floating_point() else tensor

    def _errors(self, tensor: torch.Tensor) -> torch.Tensor:
        errors = torch.rand(tensor.shape, generator=self._generator) * 2 - 1
        return (1 + self._unit * errors.to(tensor.device)).to(tensor.dtype)


def _rounds(func: Any, args: Any) -> bool:
    """Return True for sums, differences and quotients; not for a quotient by a number."""
    if func in (_ATEN.div.Tensor, _ATEN.div_.Tensor):
        return isinstance(args[1], torch.Tensor)
    return func.overloadpacket in _SUMS or func.overloadpacket in flop_registry


_ATEN: Any = torch.ops.aten
_TANH = {_ATEN.tanh, _ATEN.tanh_}
#: What adds or subtracts, and is not on torch's list.
_SUMS = {
    getattr(_ATEN, name)
    for name in (
        *("add", "add_", "sub", "sub_", "rsub", "sum", "mean", "cumsum", "mv", "addmv", "dot"),
        *("var", "std", "var_mean", "std_mean", "linalg_vector_norm"),
        *("native_batch_norm", "native_group_norm", "native_layer_norm"),
    )
}
