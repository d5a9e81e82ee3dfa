"""Comparisons and choices: ncnn has no booleans, so true is 1.0 and false is 0.0."""

# ruff: noqa: D103 - each lowering is documented by the operator whose name it carries
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from enginebay_ncnn.lowering.arithmetic import elementwise, flat, lower_amax, lower_amin
from enginebay_ncnn.lowering.registry import (
    UnsupportedError,
    constant,
    is_constant,
    lowers,
    sizes_of,
)

if TYPE_CHECKING:
    from torch import Tensor

_LARGEST = torch.finfo(torch.float32).max


def _differ(a: Any, b: Any) -> Tensor:
    result: Tensor = (a - b).sign().abs()
    return result


def _above(a: Any, b: Any) -> Tensor:
    result: Tensor = (a - b).sign().clamp(0.0, 1.0)
    return result


@lowers("eq")
def lower_eq(a: Tensor, b: Any) -> Tensor:
    return elementwise(lambda x, y: 1.0 - _differ(x, y), a, b)


@lowers("ne", "not_equal", "logical_xor", "bitwise_xor", "__xor__")
def lower_ne(a: Tensor, b: Any) -> Tensor:
    return elementwise(_differ, a, b)


@lowers("gt")
def lower_gt(a: Tensor, b: Any) -> Tensor:
    return elementwise(_above, a, b)


@lowers("lt")
def lower_lt(a: Tensor, b: Any) -> Tensor:
    return elementwise(_above, b, a)


@lowers("ge")
def lower_ge(a: Tensor, b: Any) -> Tensor:
    return elementwise(lambda x, y: 1.0 - _above(y, x), a, b)


@lowers("le")
def lower_le(a: Tensor, b: Any) -> Tensor:
    return elementwise(lambda x, y: 1.0 - _above(x, y), a, b)


@lowers("logical_not", "bitwise_not")
def lower_not(a: Tensor) -> Tensor:
    return flat(lambda x: 1.0 - x, a)


@lowers("logical_and", "bitwise_and", "__and__")
def lower_and(a: Any, b: Any) -> Tensor:
    return elementwise(lambda x, y: x * y, a, b)


@lowers("logical_or", "bitwise_or", "__or__")
def lower_or(a: Any, b: Any) -> Tensor:
    return lower_maximum(a, b)


@lowers("where")
def lower_where(condition: Tensor, a: Any = None, b: Any = None) -> Tensor:
    """One of the two products is zero, so nothing is rounded; infinities would spoil it."""
    if a is None:
        raise UnsupportedError("the places of a mask: their number depends on the inputs")
    return elementwise(lambda c, x, y: x * c + y * (1.0 - c), condition, finite(a), finite(b))


@lowers("clamp", "clip")
def lower_clamp(x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    if isinstance(low, torch.Tensor) or isinstance(high, torch.Tensor):
        x = x if low is None else lower_maximum(x, low)
        return x if high is None else lower_minimum(x, high)
    # pnnx drops a bound that is missing only where it is written as a number.
    lowest = -_LARGEST if low is None else max(float(low), -_LARGEST)
    highest = _LARGEST if high is None else min(float(high), _LARGEST)
    return flat(lambda t: t.clamp(lowest, highest), x)


@lowers("clamp_min")
def lower_clamp_min(x: Tensor, low: Any) -> Tensor:
    return lower_clamp(x, low)


@lowers("clamp_max")
def lower_clamp_max(x: Tensor, high: Any) -> Tensor:
    return lower_clamp(x, None, high)


@lowers("masked_fill")
def lower_masked_fill(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    return lower_where(mask, value, x)


def finite(value: Any) -> Any:
    """A constant with the largest numbers in its infinities' places."""
    if isinstance(value, torch.Tensor):
        return constant(value.float().clamp(-_LARGEST, _LARGEST)) if is_constant(value) else value
    return max(-_LARGEST, min(_LARGEST, float(value))) if math.isinf(value) else float(value)


@lowers("any")
def lower_any(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    x = elementwise(_differ, x, 0.0)
    return lower_amax(x, dim, keepdim)


@lowers("all")
def lower_all(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    x = elementwise(_differ, x, 0.0)
    return lower_amin(x, dim, keepdim)


@lowers("isnan", "isinf", "isneginf", "isposinf")
def lower_never(x: Tensor) -> Tensor:
    """Numbers that are none have no place in a network for ncnn: it flushes and clamps them."""
    return flat(lambda t: t * 0.0, x)


@lowers("isfinite")
def lower_always(x: Tensor) -> Tensor:
    return flat(lambda t: t * 0.0 + 1.0, x)


@lowers("nan_to_num")
def lower_nan_to_num(x: Tensor, *_: Any) -> Tensor:
    return x


@lowers("maximum", "max.other", "fmax")
def lower_maximum(a: Any, b: Any) -> Tensor:
    return elementwise(_larger, a, b)


@lowers("minimum", "min.other", "fmin")
def lower_minimum(a: Any, b: Any) -> Tensor:
    return elementwise(_smaller, a, b)


def _larger(x: Tensor, y: Any) -> Tensor:
    return torch.maximum(x, y) if isinstance(y, torch.Tensor) else x.clamp(y, _LARGEST)


def _smaller(x: Tensor, y: Any) -> Tensor:
    return torch.minimum(x, y) if isinstance(y, torch.Tensor) else x.clamp(-_LARGEST, y)


@lowers("signbit")
def lower_signbit(x: Tensor) -> Tensor:
    return lower_lt(x, 0.0)  # there is no negative zero to be seen


@lowers("copysign")
def lower_copysign(a: Any, b: Any) -> Tensor:
    return elementwise(lambda x, y: abs(x) * (1.0 - 2.0 * _above(y * 0.0, y)), a, b)


@lowers("threshold")
def lower_threshold(x: Tensor, threshold: float, value: float) -> Tensor:
    return lower_where(lower_gt(x, threshold), x, value)


@lowers("softplus")
def lower_softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    if (beta, threshold) == (1, 20):
        return flat(torch.nn.functional.softplus, x)
    scaled = flat(lambda t: t * beta, x)
    smooth = flat(lambda t: t.clamp(-_LARGEST, threshold).exp().log1p() * (1 / beta), scaled)
    return lower_where(lower_gt(scaled, threshold), x, smooth)


@lowers("triu")
def lower_triu(x: Tensor, diagonal: int = 0) -> Tensor:
    return lower_where(torch.ones(sizes_of(x)[-2:]).triu(diagonal), x, 0.0)


@lowers("tril")
def lower_tril(x: Tensor, diagonal: int = 0) -> Tensor:
    return lower_where(torch.ones(sizes_of(x)[-2:]).tril(diagonal), x, 0.0)
