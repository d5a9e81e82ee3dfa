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
    it. All else is as PyTorch computes it, so that nothing but a decision moves an output.

    Args:
        unit: The largest error of a number, relative to it and to the median of its tensor.
        seed: Other seeds, other decisions.

    Attributes:
        decides: True after an operator that decides.

    Example:
        >>> with OtherDecisions(2**-16, seed=1):
        ...     places = torch.ones(100).argmax()
        >>> bool(places > 0)  # the first in PyTorch
        True
    """

    def __init__(self, unit: float, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._unit = unit
        self.decides = False
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call an operator, with another decision where it decides."""
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::").rstrip("_")
        is_order = name in _ORDERS or str(func) in _EXTREMES
        if is_order and args[0].dim() and not kwargs.get("stable"):
            return self._ordered(func, args, kwargs)
        is_number = bool(args) and isinstance(args[0], torch.Tensor) and args[0].numel() > 0
        if is_number and not func._schema.is_mutable:
            to_integer = name == "_to_copy" and not _is_float(kwargs.get("dtype"))
            if (name in _STEPS or to_integer) and args[0].is_floating_point():
                args, self.decides = (self._nudged(args[0]), *args[1:]), True
            elif name == "atan2":
                args, self.decides = tuple(map(self._either_sign, args)), True
        return func(*args, **kwargs)

    def _uniform(self, like: torch.Tensor) -> torch.Tensor:
        drawn = torch.rand(like.shape, generator=self._generator) * 2 - 1
        return drawn.to(like.device, like.dtype)

    def _nudged(self, values: torch.Tensor) -> torch.Tensor:
        size = values.abs()
        error = self._unit * (size + size.nanmedian()) * self._uniform(values)
        return torch.where(is_exact(values), values, values + error)

    def _either_sign(self, values: torch.Tensor) -> torch.Tensor:
        return torch.where(values == 0, values.copysign(self._uniform(values)), values)

    def _ordered(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The order of values that are off, and turned about so that equal ones change places."""
        names = [argument.name for argument in func._schema.arguments]
        known = {**dict(zip(names, args, strict=False)), **kwargs}
        is_whole = func.overloadpacket in _OF_ALL and known.get("dim") is None
        values = args[0].reshape(-1) if is_whole else args[0]
        dim = 0 if is_whole else known.get("dim", -1)
        if func._schema.is_mutable or values.shape[dim] == 0 or (is_whole and len(known) > 1):
            return func(*args, **kwargs)
        self.decides = True
        places = torch.randperm(values.shape[dim], generator=self._generator).to(values.device)
        nudged = self._nudged(values) if values.is_floating_point() else values
        result = func(nudged.index_select(dim, places), *args[1:], **kwargs)
        if isinstance(result, torch.Tensor):
            return places[result]
        indices = places[result[1]]
        keeps = indices.dim() == values.dim()
        found = values.gather(dim, indices if keeps else indices.unsqueeze(dim))
        return found if keeps else found.squeeze(dim), indices


def _is_float(dtype: torch.dtype | None) -> bool:
    return dtype is None or dtype.is_floating_point or dtype.is_complex


#: What jumps between neighbouring numbers. Equality is not here: a number equals itself anywhere.
_STEPS = frozenset(
    ("round", "floor", "ceil", "trunc", "frac", "sign", "floor_divide", "remainder", "fmod")
) | frozenset(("gt", "ge", "lt", "le", "bucketize", "searchsorted"))
_ORDERS = frozenset(("topk", "sort", "argmax", "argmin", "kthvalue"))
_EXTREMES = frozenset(("aten.max.dim", "aten.min.dim"))
_OF_ALL = {torch.ops.aten.argmax, torch.ops.aten.argmin}
