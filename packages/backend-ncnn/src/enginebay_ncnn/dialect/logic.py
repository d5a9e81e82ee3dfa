"""Comparisons and choices: ncnn has no booleans, so true is 1.0 and false is 0.0."""

# ruff: noqa: D103 - each function writes the operator whose name it carries
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from enginebay_ncnn.dialect.arithmetic import LARGEST, differ, elementwise, flat, is_true
from enginebay_ncnn.dialect.reductions import write_amax, write_amin
from enginebay_ncnn.dialect.values import Blob, Value

if TYPE_CHECKING:
    from torch import Tensor


def _above(a: Any, b: Any) -> Tensor:
    result: Tensor = (a - b).sign().clamp(0.0, 1.0)
    return result


def write_eq(a: Value, b: Any) -> Value:
    return elementwise(lambda x, y: 1.0 - differ(x, y), a, b)


def write_ne(a: Value, b: Any) -> Value:
    return elementwise(differ, a, b)


def write_gt(a: Value, b: Any) -> Value:
    return elementwise(_above, a, b)


def write_lt(a: Value, b: Any) -> Value:
    return elementwise(lambda x, y: _above(y, x), a, b)


def write_ge(a: Value, b: Any) -> Value:
    return elementwise(lambda x, y: 1.0 - _above(y, x), a, b)


def write_le(a: Value, b: Any) -> Value:
    return elementwise(lambda x, y: 1.0 - _above(x, y), a, b)


def write_logical_not(a: Value) -> Value:
    return flat(lambda x: 1.0 - x, is_true(a))


def write_logical_and(a: Any, b: Any) -> Value:
    return elementwise(lambda x, y: x * y, is_true(a), is_true(b))


def write_logical_or(a: Any, b: Any) -> Value:
    return elementwise(_larger, is_true(a), is_true(b))


def write_logical_xor(a: Any, b: Any) -> Value:
    return elementwise(differ, is_true(a), is_true(b))


# Of truths: the bits of an integer are refused before.
write_bitwise_not, write_bitwise_and = write_logical_not, write_logical_and
write_bitwise_or, write_bitwise_xor = write_logical_or, write_logical_xor


def write_where(condition: Value, a: Any, b: Any) -> Value:
    """One of the two products is zero, so nothing is rounded; infinities would spoil it."""
    a, b = finite(a), finite(b)
    if isinstance(b, float) and b == 0.0:
        return elementwise(lambda c, x: c * x, condition, a)
    if isinstance(a, float) and a == 0.0:
        return elementwise(lambda c, y: (1.0 - c) * y, condition, b)
    return elementwise(lambda c, x, y: x * c + y * (1.0 - c), condition, a, b)


def write_clamp(x: Value, min: Any = None, max: Any = None) -> Value:  # noqa: A002 - torch's names
    low, high = (each.item() if _is_number(each) else each for each in (min, max))
    if isinstance(low, Value) or isinstance(high, Value):
        x = x if low is None else write_maximum(x, low)
        return x if high is None else write_minimum(x, high)
    # pnnx drops a bound that is missing only where it is written as a number.
    lowest = -LARGEST if low is None else _bounded(low)
    highest = LARGEST if high is None else _bounded(high)
    return flat(lambda t: t.clamp(lowest, highest), x)


def _is_number(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not value.ndim


def _bounded(value: float) -> float:
    return sorted((-LARGEST, float(value), LARGEST))[1]


def finite(value: Any) -> Any:
    """A constant with the largest numbers in its infinities' places, and 0 in that of NaN."""
    if isinstance(value, torch.Tensor):
        value = value.float().nan_to_num()
        return value if value.ndim else value.item()
    if isinstance(value, Blob):
        return value
    return _bounded(value) if math.isinf(value) else float(value)


def write_any(x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return write_amax(is_true(x), dim, keepdim)


def write_all(x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return write_amin(is_true(x), dim, keepdim)


def write_isnan(x: Value) -> Value:
    """Numbers that are none have no place in a network for ncnn: it flushes and clamps them."""
    return torch.zeros(x.shape, dtype=torch.bool)


write_isinf = write_isnan


def write_nan_to_num(x: Value, *_: Any, **__: Any) -> Value:
    return x


def write_maximum(a: Any, b: Any) -> Value:
    return elementwise(_larger, a, b)


def write_minimum(a: Any, b: Any) -> Value:
    return elementwise(_smaller, a, b)


def _larger(x: Tensor, y: Any) -> Tensor:
    return torch.maximum(x, y) if isinstance(y, torch.Tensor) else x.clamp(y, LARGEST)


def _smaller(x: Tensor, y: Any) -> Tensor:
    return torch.minimum(x, y) if isinstance(y, torch.Tensor) else x.clamp(-LARGEST, y)
