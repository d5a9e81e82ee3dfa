"""PyTorch with other decisions, where rounding or nothing at all decides; this imports torch."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from enginebay.verification.other_roundings import is_exact


class OtherDecisions(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """While it is entered, what lies between two results may become the other one.

    A step (``round``, a comparison) takes numbers that are off at random; the order of equal values
    is another one, unless a sort is stable; and a zero has either sign where an angle is made of
    it. All else is as PyTorch computes it.

    Args:
        unit: The largest error of a number, relative to it and to the median of its tensor.
        seed: Other seeds, other decisions.

    Attributes:
        decides: True after an operator that decides.

    Example:
        >>> with OtherDecisions(2**-16, seed=1):
        ...     places = torch.ones(100).argmax(0)
        >>> bool(places > 0)  # the first in PyTorch
        True
    """

    def __init__(self, unit: float, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._unit = unit
        self._generator = torch.Generator().manual_seed(seed)
        self.decides = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call an operator, with another decision where it decides."""
        kwargs = kwargs or {}
        if (dim := _ordered_dim(func, args, kwargs)) is not None:
            self.decides = True
            places = torch.randperm(args[0].shape[dim], generator=self._generator).to(
                args[0].device
            )
            result = func(self._nudged(args[0]).index_select(dim, places), *args[1:], **kwargs)
            is_alone = isinstance(result, torch.Tensor)
            return places[result] if is_alone else (result[0], places[result[1]])
        if func.overloadpacket is _ATEN.atan2:
            self.decides = True
            args = [torch.where(each == 0, each.copysign(self._drawn(each)), each) for each in args]
        elif _is_step(func, kwargs) and isinstance(args[0], torch.Tensor):
            self.decides = True
            args = (self._nudged(args[0]), *args[1:])
        return func(*args, **kwargs)

    def _drawn(self, like: torch.Tensor) -> torch.Tensor:
        return (torch.rand(like.shape, generator=self._generator) * 2 - 1).to(like)

    def _nudged(self, values: torch.Tensor) -> torch.Tensor:
        if not values.is_floating_point() or not values.numel():
            return values
        size = values.abs()
        error = self._unit * (size + size.nanmedian()) * self._drawn(values)
        return torch.where(is_exact(values), values, values + error)


def _is_step(func: Any, kwargs: Any) -> bool:
    dtype = kwargs.get("dtype")
    is_integer = dtype is not None and not (dtype.is_floating_point or dtype.is_complex)
    return func.overloadpacket in _STEPS or (func is _ATEN._to_copy.default and is_integer)


def _ordered_dim(func: Any, args: Any, kwargs: Any) -> int | None:
    """The dimension along which an operator orders values; None where equal ones keep theirs."""
    names = [argument.name for argument in func._schema.arguments]
    if func.overloadpacket not in _ORDERS or "dim" not in names or kwargs.get("stable"):
        return None
    dim = {**dict(zip(names, args, strict=False)), **kwargs}.get(
        "dim", _ORDERS[func.overloadpacket]
    )
    return dim if dim is not None and args[0].dim() and args[0].shape[dim] else None


_ATEN: Any = torch.ops.aten
#: What jumps between neighbouring numbers. Equality is not here: a number equals itself anywhere.
_STEPS = {
    *(_ATEN.round, _ATEN.floor, _ATEN.ceil, _ATEN.trunc, _ATEN.frac, _ATEN.sign, _ATEN.remainder),
    *(_ATEN.floor_divide, _ATEN.fmod, _ATEN.gt, _ATEN.ge, _ATEN.lt, _ATEN.le, _ATEN.bucketize),
    _ATEN.fake_quantize_per_tensor_affine_cachemask,
}
#: What orders values, and along which dimension by default.
_WHOLE = (_ATEN.argmax, _ATEN.argmin, _ATEN.max, _ATEN.min)
_ORDERS = {_ATEN.topk: -1, _ATEN.sort: -1} | dict.fromkeys(_WHOLE)
