"""The table of lowerings."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from enginebay.errors import ConversionError
from enginebay_ncnn.lowering.torch_internals import untraced

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

_F = TypeVar("_F", bound="Callable[..., Any]")

#: Lowerings by the name of the operator in ``torch.ops.aten``.
LOWERINGS: dict[str, Callable[..., Any]] = {}


class UnsupportedError(ConversionError):
    """No lowering here can express this with operators that ncnn has."""


def lowers(*names: str) -> Callable[[_F], _F]:
    """Register a lowering, which has the arguments of the operator."""

    def declare(function: _F) -> _F:
        for name in names:
            LOWERINGS[name] = function
        return function

    return declare


def annotate(tensor: Tensor, name: str, value: object) -> None:
    """Set an attribute of a tensor that torch does not know, for a later lowering to read."""
    setattr(tensor, name, value)


def constant(tensor: Tensor) -> Tensor:
    """Mark a tensor that has the same value for every input of the model."""
    annotate(tensor, "is_constant", True)
    return tensor


def is_constant(tensor: Any) -> bool:
    """Return True if a value is the same for every input of the model."""
    return getattr(tensor, "is_constant", False) or not hasattr(tensor, "shape")


def as_float(tensor: Tensor) -> Tensor:
    """Return a tensor as float32.

    One that is float32 already adds nothing to the trace; otherwise a third of it would do nothing.
    """
    return tensor if tensor.dtype is torch.float32 else tensor.float()


def sizes_of(tensor: Tensor) -> tuple[int, ...]:
    """Return a tensor's sizes as numbers; in a trace its own sizes are tensors and are traced."""
    with untraced():
        return tuple(tensor.shape)


def count_of(tensor: Tensor) -> int:
    """Return the number of a tensor's elements."""
    return math.prod(sizes_of(tensor))
