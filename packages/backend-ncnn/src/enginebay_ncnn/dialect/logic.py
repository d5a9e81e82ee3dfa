"""Express comparisons, ``where`` and logic with ncnn's layers.

ncnn has no booleans: true is 1.0 and false is 0.0.
"""

# ruff: noqa: D103 - each function writes the operator whose name it carries
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from enginebay_ncnn.dialect.arithmetic import (
    LARGEST,
    apply_elementwise,
    apply_unary,
    as_bool,
    cast_to,
    not_equal,
)
from enginebay_ncnn.dialect.reductions import write_amax, write_amin
from enginebay_ncnn.dialect.values import Blob, Operand, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from enginebay_ncnn.dialect.reductions import Dims


def _greater_than(a: Any, b: Any) -> Tensor:
    result: Tensor = (a - b).sign().clamp(0.0, 1.0)
    return result


def write_eq(a: Value, b: Operand) -> Value:
    return apply_elementwise(lambda x, y: 1.0 - not_equal(x, y), a, b)


def write_ne(a: Value, b: Operand) -> Value:
    return apply_elementwise(not_equal, a, b)


def write_gt(a: Value, b: Operand) -> Value:
    return apply_elementwise(_greater_than, a, b)


def write_lt(a: Value, b: Operand) -> Value:
    return apply_elementwise(lambda x, y: _greater_than(y, x), a, b)


def write_ge(a: Value, b: Operand) -> Value:
    return apply_elementwise(lambda x, y: 1.0 - _greater_than(y, x), a, b)


def write_le(a: Value, b: Operand) -> Value:
    return apply_elementwise(lambda x, y: 1.0 - _greater_than(x, y), a, b)


def write_logical_not(a: Value) -> Value:
    return apply_unary(lambda x: 1.0 - x, cast_to(a, torch.bool))


def write_logical_and(a: Operand, b: Operand) -> Value:
    return apply_elementwise(lambda x, y: x * y, as_bool(a), as_bool(b))


def write_logical_or(a: Operand, b: Operand) -> Value:
    return apply_elementwise(_max_of_two, as_bool(a), as_bool(b))


def write_logical_xor(a: Operand, b: Operand) -> Value:
    return apply_elementwise(not_equal, as_bool(a), as_bool(b))


def write_where(condition: Value, a: Operand, b: Operand) -> Value:
    # One of the two products is zero, so nothing is rounded. Zero times infinity would be NaN.
    a, b = replace_nonfinite(a), replace_nonfinite(b)
    if isinstance(b, float) and b == 0.0:
        return apply_elementwise(lambda c, x: c * x, condition, a)
    if isinstance(a, float) and a == 0.0:
        return apply_elementwise(lambda c, y: (1.0 - c) * y, condition, b)
    return apply_elementwise(lambda c, x, y: x * c + y * (1.0 - c), condition, a, b)


def write_clamp(
    operand: Value,
    min: Operand | None = None,  # noqa: A002 - torch's name
    max: Operand | None = None,  # noqa: A002
) -> Value:
    low, high = (
        bound.item() if isinstance(bound, torch.Tensor) and not bound.ndim else bound
        for bound in (min, max)
    )
    if isinstance(low, Value) or isinstance(high, Value):
        operand = operand if low is None else write_maximum(operand, low)
        return operand if high is None else write_minimum(operand, high)
    # pnnx reads a missing bound only if it is written as a number.
    lowest = -LARGEST if low is None else _clamp_to_float32(low)
    highest = LARGEST if high is None else _clamp_to_float32(high)
    return apply_unary(lambda t: t.clamp(lowest, highest), operand)


def _clamp_to_float32(value: float) -> float:
    return sorted((-LARGEST, float(value), LARGEST))[1]


def replace_nonfinite(value: Operand) -> Any:
    """Replace infinity in a constant by the largest float32, -infinity by the lowest, NaN by 0."""
    if isinstance(value, torch.Tensor):
        value = value.float().nan_to_num()
        return value if value.ndim else value.item()
    if isinstance(value, Blob):
        return value
    return _clamp_to_float32(value) if math.isinf(value) else float(value)


def write_any(operand: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return write_amax(cast_to(operand, torch.bool), dim, keepdim)


def write_all(operand: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return write_amin(cast_to(operand, torch.bool), dim, keepdim)


def write_isnan(operand: Value) -> Value:
    # No value in an ncnn network is NaN or infinite: the dialect replaces or clamps them.
    return torch.zeros(operand.shape, dtype=torch.bool)


def write_nan_to_num(operand: Value, *_: object, **__: object) -> Value:
    return operand


def write_maximum(a: Operand, b: Operand) -> Value:
    return apply_elementwise(_max_of_two, a, b)


def write_minimum(a: Operand, b: Operand) -> Value:
    return apply_elementwise(_min_of_two, a, b)


def _max_of_two(a: Tensor, b: Tensor | float) -> Tensor:
    return torch.maximum(a, b) if isinstance(b, torch.Tensor) else a.clamp(b, LARGEST)


def _min_of_two(a: Tensor, b: Tensor | float) -> Tensor:
    return torch.minimum(a, b) if isinstance(b, torch.Tensor) else a.clamp(-LARGEST, b)


#: The writers of this file by the names of their operators.
WRITERS: dict[str, Callable[..., Any]] = {
    "eq": write_eq,
    "ne": write_ne,
    "lt": write_lt,
    "le": write_le,
    "gt": write_gt,
    "ge": write_ge,
    "where": write_where,
    "clamp": write_clamp,
    "maximum": write_maximum,
    "minimum": write_minimum,
    "logical_not": write_logical_not,
    "logical_and": write_logical_and,
    "logical_or": write_logical_or,
    "logical_xor": write_logical_xor,
    # Of booleans only: write_operator refuses the bits of integers.
    "bitwise_not": write_logical_not,
    "bitwise_and": write_logical_and,
    "bitwise_or": write_logical_or,
    "bitwise_xor": write_logical_xor,
    "any": write_any,
    "all": write_all,
    "isnan": write_isnan,
    "isinf": write_isnan,
    "nan_to_num": write_nan_to_num,
}
