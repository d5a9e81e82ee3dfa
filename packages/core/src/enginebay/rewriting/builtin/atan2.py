"""``atan2``: on the axes one exporter is off by 2π, and the other answers NaN."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from enginebay.rewriting.declaration import RewriterSet
    from enginebay.rewriting.rewriter import Context


def declare(rewriters: RewriterSet) -> None:
    """Add the rewriters."""
    for name in ("torch.atan2", "torch.arctan2", "torch.Tensor.atan2", "torch.Tensor.arctan2"):
        rewriters.function(name, ir="onnx")(atan2)


def atan2(ctx: Context, input: Any, other: Any, **kwargs: Any) -> Any:  # noqa: A002  # torch's name
    """Rewrites ``torch.atan2``: the angle in the first quadrant, then the signs."""
    import torch

    if kwargs or input.is_complex() or other.is_complex():
        return ctx.origin_func(input, other, **kwargs)
    dtype = torch.result_type(input, other)
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    y, x = input.to(dtype), other.to(dtype)
    angle = torch.atan(y.abs() / x.abs())
    # Two quotients are not numbers though the angle is one: 0/0, and ∞/∞.
    angle = torch.where((y == 0) & (x == 0), torch.zeros_like(angle), angle)
    angle = torch.where(y.isinf() & x.isinf(), torch.full_like(angle, math.pi / 4), angle)
    angle = torch.where(_negative(x), math.pi - angle, angle)
    return torch.where(_negative(y), -angle, angle)


def _negative(value: Tensor) -> Tensor:
    """Whether the sign is negative, −0 too: ONNX has no operator for it, but 1/−0 is −∞."""
    return (value < 0) | ((value == 0) & (value.reciprocal() < 0))
