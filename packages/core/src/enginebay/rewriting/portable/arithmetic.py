"""Arithmetic that small engines lack."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from enginebay.rewriting.portable.common import lowers, torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from enginebay.rewriting.lowering import LoweringContext


@lowers("remainder.Tensor", "remainder.Scalar")
def remainder(ctx: LoweringContext, x: Tensor, other: Any) -> Tensor:
    """Of finite numbers."""
    found: Tensor = x - torch.div(x, other, rounding_mode="floor") * other
    return found


@lowers("fmod.Tensor", "fmod.Scalar")
def fmod(ctx: LoweringContext, x: Tensor, other: Any) -> Tensor:
    """Of finite numbers."""
    found: Tensor = x - torch.div(x, other, rounding_mode="trunc") * other
    return found


@lowers("round.default")
def round_(ctx: LoweringContext, x: Tensor) -> Tensor:
    """Halves to even numbers."""
    if not x.dtype.is_floating_point:
        return x.clone()
    low = x.floor()
    above, is_odd = x - low, low != (low / 2).floor() * 2
    return torch.where((above > 0.5) | ((above == 0.5) & is_odd), low + 1, low)


@lowers("isnan")
def isnan(ctx: LoweringContext, x: Tensor) -> Tensor:
    return x != x


@lowers("sign", "sgn")
def sign(ctx: LoweringContext, x: Tensor) -> Tensor:
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype) if x.dtype is not torch.bool else x.clone()


@lowers("trunc")
def trunc(ctx: LoweringContext, x: Tensor) -> Tensor:
    return torch.where(x < 0, -(-x).floor(), x.floor()) if x.dtype.is_floating_point else x.clone()


@lowers("ceil")
def ceil(ctx: LoweringContext, x: Tensor) -> Tensor:
    return -(-x).floor() if x.dtype.is_floating_point else x.clone()


@lowers("reciprocal")
def reciprocal(ctx: LoweringContext, x: Tensor) -> Tensor:
    return torch.ones((), dtype=x.dtype if x.dtype.is_floating_point else None) / x


@lowers("atan2", open_sizes=True)
def atan2(ctx: LoweringContext, y: Tensor, x: Tensor) -> Tensor:
    """The angle in the first quadrant, then the signs."""
    dtype = torch.result_type(y, x)
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    y, x = y.to(dtype), x.to(dtype)
    angle = torch.atan(y.abs() / x.abs())
    # Two quotients are not numbers though the angle is one: 0/0, and ∞/∞.
    angle = torch.where((y == 0) & (x == 0), 0.0, angle)
    angle = torch.where((y.abs() == torch.inf) & (x.abs() == torch.inf), math.pi / 4, angle)
    angle = torch.where(_is_negative(x), math.pi - angle, angle)
    return torch.where(_is_negative(y), -angle, angle)


def _is_negative(x: Tensor) -> Tensor:
    """The sign bit, that of −0 too: few engines have an operator for it, but 1/−0 is −∞."""
    return (x < 0) | ((x == 0) & (x.reciprocal() < 0))


@lowers("log1p")
def log1p(ctx: LoweringContext, x: Tensor) -> Tensor:
    """Exact near zero too, where ``1 + x`` has lost what ``x`` is."""
    x = x if x.dtype.is_floating_point else x.to(torch.get_default_dtype())
    above = x + 1
    return torch.where((above == 1) | (above == torch.inf), x, above.log() * (x / (above - 1)))


@lowers("split_with_sizes", "split_with_sizes_copy")
def split_with_sizes(
    ctx: LoweringContext, x: Tensor, split_sizes: Sequence[int], dim: int = 0
) -> list[Tensor]:
    starts = [sum(split_sizes[:place]) for place in range(len(split_sizes))]
    return [x.narrow(dim, start, size) for start, size in zip(starts, split_sizes, strict=True)]


@lowers("repeat")
def repeat(ctx: LoweringContext, x: Tensor, repeats: Sequence[int]) -> Tensor:
    sizes = [1] * (len(repeats) - x.ndim) + list(x.shape)
    pairs = list(zip(repeats, sizes, strict=True))
    apart = x.reshape([size for own in sizes for size in (1, own)])
    found: Tensor = apart.expand([size for pair in pairs for size in pair])
    return found.reshape([times * size for times, size in pairs])


@lowers("full_like", open_sizes=True)
def full_like(
    ctx: LoweringContext, x: Tensor, value: Any, *, dtype: torch.dtype | None = None, **_: Any
) -> Tensor:
    return torch.full(x.shape, value, dtype=dtype or x.dtype, device=x.device)


@lowers("alias", open_sizes=True)
def alias(ctx: LoweringContext, x: Tensor) -> Tensor:
    return x.view(x.shape)
