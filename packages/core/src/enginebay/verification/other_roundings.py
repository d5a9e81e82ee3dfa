"""PyTorch with other roundings; importing this imports torch."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.flop_counter import flop_registry  # torch's own list of what sums products
from torch.utils.weak import WeakTensorKeyDictionary


class OtherRoundings(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """While it is entered, every sum, difference and quotient in PyTorch is off by roundings.

    Sums of products are among them, and of quotients those of tensors. What an operator gives is
    off by one rounding at random, and so is each number that it takes: of a sum in which large
    numbers cancel, nothing may be left but roundings of these. A tanh is a difference from one.
    Integers and powers of two that no rounded function gave are exact, and stay as they are.

    Args:
        unit: The largest relative error.
        seed: Other seeds, other roundings.
        equal: What is summed has equal values. Their roundings do not cancel: an engine that adds
            one after the other is off by 2**-25 for each in float32, and PyTorch, which adds pairs,
            is not.

    Example:
        >>> tenths = torch.full((2, 2), 0.1)
        >>> with OtherRoundings(2**-23, seed=0):
        ...     product = tenths @ tenths
        >>> bool(0 < (product - tenths @ tenths).abs().max() <= 2**-25)
        True
    """

    def __init__(self, unit: float, seed: int, *, equal: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._unit = unit
        self._equal = equal
        self._generator = torch.Generator().manual_seed(seed)
        #: What functions that round gave, and what was made of it: a 1 among it is 1 by chance.
        self._inexact = WeakTensorKeyDictionary()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call an operator, with roundings where it adds, subtracts or divides."""
        rounds = _rounds(func, args)
        inexact = str(func.overloadpacket).startswith(_INEXACT) or any(
            leaf in self._inexact
            for leaf in tree_leaves((args, kwargs))
            if isinstance(leaf, torch.Tensor)
        )
        if rounds and not func._schema.is_mutable:
            args = tree_map_only(torch.Tensor, self._rounded, args)
        result = func(*args, **(kwargs or {}))
        if inexact:
            for leaf in tree_leaves(result):
                if isinstance(leaf, torch.Tensor) and not _is_integer(leaf):
                    self._inexact[leaf] = True
        total = result[0] if isinstance(result, tuple) else result
        if rounds and total.is_floating_point():
            length = _length(func, args, kwargs or {}, total) if self._equal else 1
            total.mul_(self._errors(total, max(1.0, length / _SHORT)))
        elif func.overloadpacket in _TANH:
            total.add_(self._errors(total) - 1)
        return result

    def _rounded(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor * self._errors(tensor) if tensor.is_floating_point() else tensor

    def _errors(self, tensor: torch.Tensor, times: float = 1.0) -> torch.Tensor:
        errors = torch.rand(tensor.shape, generator=self._generator) * 2 - 1
        errors = errors.to(tensor.device)
        if tensor not in self._inexact:
            errors.masked_fill_(is_exact(tensor), 0)
        return (1 + times * self._unit * errors).to(tensor.dtype)


def _is_integer(tensor: torch.Tensor) -> bool:
    """True for places and counts too: the places of rounded scores are not rounded."""
    return not (tensor.is_floating_point() or tensor.is_complex())


def is_exact(tensor: torch.Tensor) -> torch.Tensor:
    """Which values are integers or powers of two: sums and differences of those do not round.

    ``(1.0 - mask) * torch.finfo(dtype).min`` must stay 0 where the mask is 1.
    """
    values = tensor if tensor.is_floating_point() else tensor.to(torch.float32)
    mantissa, _ = torch.frexp(values.float())
    return (values == values.round()) | (mantissa.abs() == 0.5)


def _rounds(func: Any, args: Any) -> bool:
    """Return True for sums, differences and quotients; not for a quotient by a number."""
    if func in (_ATEN.div.Tensor, _ATEN.div_.Tensor):
        return isinstance(args[1], torch.Tensor)
    return func.overloadpacket in _SUMS or func.overloadpacket in flop_registry


def _length(func: Any, args: Any, kwargs: Any, result: torch.Tensor) -> float:
    """How many numbers, or products, are summed for one that comes out."""
    if count := flop_registry.get(func.overloadpacket):  # two operations for each product
        return float(count(*args, **kwargs, out_val=result)) / 2 / max(1, result.numel())
    return float(args[0].numel()) / max(1, result.numel())


#: A sum of so many equal values is off by as much as one of others, four roundings of 2**-23.
_SHORT = 16

_ATEN: Any = torch.ops.aten
#: What gives a rounded result even for integers, by the beginnings of names.
_INEXACT = tuple(
    f"aten.{name}"
    for name in (
        *("exp", "log", "sqrt", "rsqrt", "div", "reciprocal", "pow", "tan", "sin", "cos", "atan"),
        *("asin", "acos", "sigmoid", "softmax", "_softmax", "_log_softmax", "softplus", "gelu"),
        *("silu", "mish", "elu", "erf", "mean", "var", "std", "linalg", "native_", "norm"),
    )
)
_TANH = {_ATEN.tanh, _ATEN.tanh_}
#: What adds or subtracts, and is not on torch's list.
_SUMS = {
    getattr(_ATEN, name)
    for name in (
        *("add", "add_", "sub", "sub_", "rsub", "sum", "mean", "cumsum", "mv", "addmv", "dot"),
        *("var", "std", "var_mean", "std_mean", "linalg_vector_norm"),
        *("avg_pool1d", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d"),
        *("native_batch_norm", "native_group_norm", "native_layer_norm"),
    )
}
