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
    """ncnn cannot compute this, by any detour known here."""


def lowers(*names: str) -> Callable[[_F], _F]:
    """Register a lowering, which takes what the operator takes, by position or by name."""

    def declare(function: _F) -> _F:
        for name in names:
            LOWERINGS[name] = function
        return function

    return declare


def constant(tensor: Tensor) -> Tensor:
    """Mark a tensor as one that does not depend on the model's inputs."""
    tensor.is_constant = True  # type: ignore[attr-defined]  # tensors take attributes
    return tensor


def is_constant(tensor: Any) -> bool:
    """Whether a value does not depend on the model's inputs."""
    return getattr(tensor, "is_constant", False) or not hasattr(tensor, "shape")


def as_float(tensor: Tensor) -> Tensor:
    """A tensor as float32. One that is so already stays out of the trace, a third of it without."""
    return tensor if tensor.dtype is torch.float32 else tensor.float()


def sizes_of(tensor: Tensor) -> tuple[int, ...]:
    """A tensor's sizes as numbers: while torch traces, its own are tensors, and get traced too."""
    with untraced():
        return tuple(tensor.shape)


def count_of(tensor: Tensor) -> int:
    """How many elements a tensor has, as a number."""
    return math.prod(sizes_of(tensor))
