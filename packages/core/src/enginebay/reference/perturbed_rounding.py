"""PyTorch dispatch mode that adds random rounding errors to PyTorch's results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils.flop_counter import flop_registry  # torch's own list of sums of products
from torch.utils.weak import WeakTensorKeyDictionary

from enginebay import torch_private

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.torch_private import OpOverload


_DispatchMode: Any = torch_private.dispatch_mode_class()


class PerturbedRounding(_DispatchMode):  # type: ignore[misc]  # its base is found at run time
    """Context in which sums, differences and quotients have random rounding errors.

    Matrix products and convolutions count as sums; a quotient counts if its divisor is a tensor.
    All inputs and the result of such an operator get random relative errors: a sum in which large
    numbers cancel may consist of rounding errors only. The error of a tanh is relative to 1, like
    that of a difference from 1. Integers and powers of two are exact and get no error, unless an
    operator that rounds (``exp``, ``mean``) computed them.

    Args:
        unit: The largest relative error.
        seed: The random seed.
        equal: True if the summed values are equal, so that rounding errors do not cancel: a float32
            engine that adds the values one by one drifts by 2**-25 per value; PyTorch adds in
            pairs, and does not drift.

    Example:
        >>> tenths = torch.full((2, 2), 0.1)
        >>> with PerturbedRounding(2**-23, seed=0):
        ...     product = tenths @ tenths
        >>> bool(0 < (product - tenths @ tenths).abs().max() <= 2**-25)
        True
    """

    def __init__(self, unit: float, seed: int, *, equal: bool = False) -> None:
        super().__init__()
        self._unit = unit
        self._equal = equal
        self._generator = torch.Generator().manual_seed(seed)
        #: Results of operators that round, and all tensors computed from them. A 1 in such a tensor
        #: is rounded, and not exact.
        self._inexact = WeakTensorKeyDictionary()

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: Sequence[object] = (), kwargs: Any = None
    ) -> object:
        rounds = _is_rounding(func, args)
        inexact = str(func.overloadpacket).startswith(_INEXACT) or any(
            leaf in self._inexact
            for leaf in torch_private.tree_leaves((args, kwargs))
            if isinstance(leaf, torch.Tensor)
        )
        # An in-place operator must change the tensor itself, so its inputs are not replaced.
        if rounds and not torch_private.schema_of(func).is_mutable:
            args = torch_private.tree_map(self._perturb, args)
        result = func(*args, **(kwargs or {}))
        if inexact:
            for leaf in torch_private.tree_leaves(result):
                if isinstance(leaf, torch.Tensor) and not _is_integer(leaf):
                    self._inexact[leaf] = True
        # A norm also returns the mean and the deviation that it has computed.
        total = result[0] if isinstance(result, tuple) else result
        if rounds and total.is_floating_point():
            length = _count_summands(func, args, kwargs or {}, total) if self._equal else 1
            total.mul_(self._draw_factors(total, max(1.0, length / _SHORT_SUM)))
        elif func.overloadpacket in _TANH:
            total.add_(self._draw_factors(total) - 1)
        return result

    def _perturb(self, value: object) -> object:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        return value * self._draw_factors(value)

    def _draw_factors(self, tensor: torch.Tensor, times: float = 1.0) -> torch.Tensor:
        """Draw a factor of about 1 for each element: 1 plus an error of at most ``times`` units."""
        errors = torch.rand(tensor.shape, generator=self._generator).mul_(2).sub_(1)
        errors = errors.to(tensor.device)
        if tensor not in self._inexact:
            errors.masked_fill_(is_exact(tensor), 0)
        return errors.mul_(times * self._unit).add_(1).to(tensor.dtype)


def _is_integer(tensor: torch.Tensor) -> bool:
    # Indices and counts are exact, even if they were computed from rounded values.
    return not (tensor.is_floating_point() or tensor.is_complex())


def is_exact(tensor: torch.Tensor) -> torch.Tensor:
    """Return a mask of integers and powers of two, which count as exact.

    An attention mask ``(1.0 - mask) * torch.finfo(dtype).min`` must stay 0 where the mask is 1.
    """
    values = tensor if tensor.is_floating_point() else tensor.to(torch.float32)
    mantissa = torch.frexp(values.float())[0].abs_()
    return (values == values.round()) | (mantissa == 0.5)


def _is_rounding(func: OpOverload, args: Sequence[object]) -> bool:
    """Return True for sums and differences, and for quotients whose divisor is a tensor."""
    if func in (_ATEN.div.Tensor, _ATEN.div_.Tensor):
        return isinstance(args[1], torch.Tensor)
    return func.overloadpacket in _SUMS or func.overloadpacket in flop_registry


def _count_summands(
    func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, object], result: torch.Tensor
) -> float:
    """Return the number of terms in the sum that computes one element of the result."""
    if count := flop_registry.get(func.overloadpacket):  # it counts two operations per product
        return float(count(*args, **kwargs, out_val=result)) / 2 / max(1, result.numel())
    return float(args[0].numel()) / max(1, result.numel())


#: A sum of up to this many equal values is off by no more than a sum of different values: by four
#: roundings of 2**-23.
_SHORT_SUM = 16

_ATEN: Any = torch.ops.aten
#: Prefixes of the names of operators that round even if their inputs are integers.
_INEXACT = tuple(
    f"aten.{name}"
    for name in (
        *("exp", "log", "sqrt", "rsqrt", "div", "reciprocal", "pow", "tan", "sin", "cos", "atan"),
        *("asin", "acos", "sigmoid", "softmax", "_softmax", "_log_softmax", "softplus", "gelu"),
        *("silu", "mish", "elu", "erf", "mean", "var", "std", "linalg", "native_", "norm"),
    )
)
_TANH = {_ATEN.tanh, _ATEN.tanh_}
#: Operators that add or subtract, and are not in torch's ``flop_registry``.
_SUMS = {
    getattr(_ATEN, name)
    for name in (
        *("add", "add_", "sub", "sub_", "rsub", "sum", "mean", "cumsum", "mv", "addmv", "dot"),
        *("var", "std", "var_mean", "std_mean", "linalg_vector_norm"),
        *("avg_pool1d", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d"),
        *("native_batch_norm", "native_group_norm", "native_layer_norm"),
    )
}
