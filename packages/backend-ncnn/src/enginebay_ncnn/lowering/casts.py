"""Conversions between dtypes: all are float32 in the end."""

# ruff: noqa: D103 - each lowering is documented by the operator whose name it carries
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from enginebay_ncnn.lowering import arithmetic
from enginebay_ncnn.lowering.logic import lower_ne
from enginebay_ncnn.lowering.registry import lowers, sizes_of

if TYPE_CHECKING:
    from torch import Tensor


def cast(x: Tensor, source: torch.dtype, target: torch.dtype) -> Tensor:
    """A value as another dtype would hold it, given what it stands for now."""
    if target is source or target.is_floating_point:
        return x
    if target is torch.bool:
        return lower_ne(x, 0.0)
    if not source.is_floating_point:
        return x
    # As PyTorch does, make a number of infinity: products with it would not be zero.
    return arithmetic.flat(lambda t: t.clamp(-_LARGEST, _LARGEST).trunc(), x)


#: What an infinity becomes: beyond any place in a table, and exact in float32.
_LARGEST = 2.0**31


@lowers("full_like")
def lower_full_like(x: Tensor, value: float, **_: Any) -> Tensor:
    return torch.full(sizes_of(x), float(value))
