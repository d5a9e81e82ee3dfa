"""PyTorch dispatch mode that perturbs step functions, comparisons and sorts of equal values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from enginebay import torch_private
from enginebay.reference.perturbed_rounding import is_exact

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.torch_private import OpOverload


_DispatchMode: Any = torch_private.dispatch_mode_class()


class PerturbedDecisions(_DispatchMode):  # type: ignore[misc]  # its base is found at run time
    """Context in which operators with discontinuous results may decide close cases differently.

    The inputs of a step function (``round``, a comparison) get random errors; equal values are
    sorted in random order, unless the sort is stable; and zeros get a random sign in ``atan2``.
    All other operators are unchanged, and the largest of integers: torch defines that the first of
    equal ones is chosen, and no rounding makes them differ.

    Args:
        unit: The largest random error, relative to the sum of the value and the tensor's median.
        seed: The random seed.

    Attributes:
        decides: True once an operator with discontinuous results has run.

    Example:
        >>> with PerturbedDecisions(2**-16, seed=1):
        ...     index = torch.ones(100).argmax(0)
        >>> bool(index > 0)  # PyTorch returns the first index
        True
    """

    def __init__(self, unit: float, seed: int) -> None:
        super().__init__()
        self._unit = unit
        self._generator = torch.Generator().manual_seed(seed)
        self.decides = False

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: Sequence[Any] = (), kwargs: Any = None
    ) -> object:
        kwargs = kwargs or {}
        if (dim := _find_ordered_dim(func, args, kwargs)) is not None:
            self.decides = True
            # PyTorch returns equal values in the order of the input, so the input is shuffled.
            order = torch.randperm(args[0].shape[dim], generator=self._generator).to(args[0].device)
            result = func(self._perturb(args[0]).index_select(dim, order), *args[1:], **kwargs)
            if isinstance(result, torch.Tensor):  # argmax and argmin return indices only
                return order[result]
            return result[0], order[result[1]]
        if func.overloadpacket is _ATEN.atan2:
            self.decides = True
            args = [
                torch.where(arg == 0, arg.copysign(self._draw_uniform(arg)), arg) for arg in args
            ]
        elif _is_step(func, kwargs) and isinstance(args[0], torch.Tensor):
            self.decides = True
            # The steps of a fake quantisation need not be exact numbers, though its ties may be.
            is_scaled = func.overloadpacket in _SCALED_STEPS
            args = (self._perturb(args[0], is_scaled=is_scaled), *args[1:])
        return func(*args, **kwargs)

    def _draw_uniform(self, like: torch.Tensor) -> torch.Tensor:
        return torch.rand(like.shape, generator=self._generator).mul_(2).sub_(1).to(like)

    def _perturb(self, values: torch.Tensor, *, is_scaled: bool = False) -> torch.Tensor:
        if not values.is_floating_point() or not values.numel():
            return values
        # In place: a segmenter's scores for a large image take a gigabyte.
        error = values.abs()
        error.add_(error.nanmedian()).mul_(self._unit).mul_(self._draw_uniform(values))
        # Zero is a step of every scale.
        kept = values == 0 if is_scaled else is_exact(values)
        return torch.where(kept, values, error.add_(values))


def _is_step(func: OpOverload, kwargs: Mapping[str, Any]) -> bool:
    dtype = kwargs.get("dtype")
    is_integer = dtype is not None and not (dtype.is_floating_point or dtype.is_complex)
    return func.overloadpacket in _STEPS or (func is _ATEN._to_copy.default and is_integer)


def _find_ordered_dim(
    func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> int | None:
    """Return the dimension along which an unstable sort runs; None for all other operators."""
    if func.overloadpacket in _REDUCTIONS and not args[0].is_floating_point():
        return None
    names = [argument.name for argument in torch_private.schema_of(func).arguments]
    if func.overloadpacket not in _ORDERS or "dim" not in names or kwargs.get("stable"):
        return None
    dim = {**dict(zip(names, args, strict=False)), **kwargs}.get(
        "dim", _ORDERS[func.overloadpacket]
    )
    return dim if dim is not None and args[0].dim() and args[0].shape[dim] else None


_ATEN: Any = torch.ops.aten
#: Operators that round to multiples of a scale.
_SCALED_STEPS = {
    _ATEN.fake_quantize_per_tensor_affine_cachemask,
    _ATEN._fake_quantize_per_tensor_affine_cachemask_tensor_qparams,
    _ATEN.fake_quantize_per_channel_affine_cachemask,
}
#: Operators whose result jumps between neighbouring inputs. Equality is not among them: a number
#: equals itself in every engine.
_STEPS = {
    *(_ATEN.round, _ATEN.floor, _ATEN.ceil, _ATEN.trunc, _ATEN.frac, _ATEN.sign, _ATEN.remainder),
    *(_ATEN.floor_divide, _ATEN.fmod, _ATEN.gt, _ATEN.ge, _ATEN.lt, _ATEN.le, _ATEN.bucketize),
    *_SCALED_STEPS,
}
#: Operators that sort or select values, with their default dimension; None for the whole tensor.
_REDUCTIONS = (_ATEN.argmax, _ATEN.argmin, _ATEN.max, _ATEN.min)
_ORDERS = {_ATEN.topk: -1, _ATEN.sort: -1} | dict.fromkeys(_REDUCTIONS)
