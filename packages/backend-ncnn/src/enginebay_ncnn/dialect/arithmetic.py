"""Express elementwise operators on values of any rank with ncnn's layers.

ncnn computes integers as floats.
"""

# ruff: noqa: D103 - each function writes the operator whose name it carries
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from enginebay_ncnn.dialect.layout import MAX_RANK, reshape, write_expand
from enginebay_ncnn.dialect.values import Blob, Operand, Value, as_float, emit_call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

#: The number that replaces infinity, which ncnn does not handle.
LARGEST = torch.finfo(torch.float32).max


def apply_elementwise(function: Callable[..., Tensor], *operands: Operand) -> Value:
    """Return the result of an elementwise function on operands of any rank, with broadcasting.

    Args:
        function: The function, called with tensors of at most :data:`MAX_RANK` dimensions.
        operands: Blobs, constants or numbers.
    """
    operands = tuple(map(_unwrap_scalar, operands))
    values = [
        torch.tensor(operand) if isinstance(operand, float) else as_float(operand)
        for operand in operands
    ]
    shape = broadcast_shapes(*(value.shape for value in values))
    if sources := _common_reshape_sources(values):
        return reshape(emit_call(function, *sources), shape)
    if len(shape) <= MAX_RANK:
        # A constant's leading ones are not needed if a blob has the rank of the result.
        rank = max((value.ndim for value in values if isinstance(value, Blob)), default=0)
        values = [_strip_leading_ones(value) if rank == len(shape) else value for value in values]
        rest = [
            number if isinstance(number, float) else value
            for number, value in zip(operands[1:], values[1:], strict=True)
        ]
        return emit_call(function, values[0], *rest)
    if all(tuple(value.shape) == shape for value in values):
        rows = [reshape(value, (1, math.prod(shape[:-1]), shape[-1])) for value in values]
        return reshape(emit_call(function, *rows), shape)
    padded = [(1,) * (len(shape) - value.ndim) + tuple(value.shape) for value in values]
    merged = _merge_dimensions(padded, shape)
    if len(merged[0]) > MAX_RANK:
        return apply_elementwise(function, *(write_expand(value, shape) for value in values))
    small = [reshape(value, sizes) for value, sizes in zip(values, merged, strict=True)]
    return reshape(emit_call(function, *small), shape)


def _common_reshape_sources(values: Sequence[Value]) -> list[Blob]:
    """Return the blobs from which ``values`` were reshaped, or an empty list.

    The list is empty unless all reshapes have the same input shape and the same output shape. An
    elementwise operator can read these blobs instead, so that only the result is reshaped.
    """
    # For some reshapes between operators, pnnx takes the wrong dimension as the batch.
    sources = [
        value.reshape_source for value in values if isinstance(value, Blob) and value.reshape_source
    ]
    shapes = {tuple(value.shape) for value in values}, {source.shape for source in sources}
    is_alike = len(sources) == len(values) and all(len(different) == 1 for different in shapes)
    return sources if is_alike and sources[0].ndim <= MAX_RANK else []


def apply_unary(function: Callable[[Tensor], Tensor], operand: Value) -> Value:
    """Return the result of an elementwise function of one operand, which may have any rank."""
    operand = as_float(operand)
    if sources := _common_reshape_sources([operand]):
        return reshape(emit_call(function, *sources), operand.shape)
    if operand.ndim <= MAX_RANK:
        return emit_call(function, operand)
    shape = operand.shape
    return reshape(
        emit_call(function, reshape(operand, (1, math.prod(shape[:-1]), shape[-1]))), shape
    )


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that tensors of these shapes broadcast to."""
    untyped: Any = torch.broadcast_shapes  # torch's stubs have no types for it
    return tuple(untyped(*shapes))


def _unwrap_scalar(operand: Operand) -> Operand:
    """Return a number or a constant of rank 0 as a finite float; any other operand unchanged."""
    if isinstance(operand, torch.Tensor) and operand.ndim == 0:
        operand = operand.item()
    if isinstance(operand, bool | int | float):
        # pnnx crashes where a number is compared with infinity.
        return max(-LARGEST, min(LARGEST, float(operand)))
    return operand


def _strip_leading_ones(value: Value) -> Value:
    """Return a constant without its leading dimensions of size one; return a blob unchanged."""
    # pnnx may take such a dimension for the batch, which is wrong if the same constant is also
    # combined with values without a batch.
    if isinstance(value, Blob):
        return value
    first = next((axis for axis, size in enumerate(value.shape) if size != 1), value.ndim - 1)
    return value.reshape(value.shape[max(first, 0) :])


def _merge_dimensions(shapes: list[tuple[int, ...]], result: tuple[int, ...]) -> list[list[int]]:
    """Merge adjacent dimensions in which the same shapes have size 1; return the merged shapes.

    Dimensions in which ``result``, the broadcast shape, has size 1 are removed.
    """
    merged: list[list[int]] = [[] for _ in shapes]
    last = None
    for axis, size in enumerate(result):
        if size == 1:
            continue
        pattern = tuple(shape[axis] == 1 for shape in shapes)
        for sizes, shape in zip(merged, shapes, strict=True):
            if pattern == last:
                sizes[-1] *= shape[axis]
            else:
                sizes.append(shape[axis])
        last = pattern
    return merged


def write_add(a: Operand, b: Operand, alpha: float = 1) -> Value:
    return apply_elementwise(lambda x, y: x + (y if alpha == 1 else y * alpha), a, b)


def write_sub(a: Operand, b: Operand, alpha: float = 1) -> Value:
    return apply_elementwise(lambda x, y: x - (y if alpha == 1 else y * alpha), a, b)


def write_mul(a: Any, b: Any) -> Value:
    if a is b:  # a square is one layer; a product of a repeated input would be three
        return apply_unary(torch.square, a)
    return apply_elementwise(lambda x, y: x * y, a, b)


def write_neg(operand: Value) -> Value:
    # A product instead of a negation: pnnx turns x * cos + rotate_half(x) * sin with a negation
    # into a RotaryEmbed layer. That layer reads only half of cos and sin, and pnnx takes the wrong
    # axis after it (Tencent/ncnn#6833).
    return apply_unary(lambda t: t * -1.0, operand)


def write_div(a: Operand, b: Operand, rounding_mode: str | None = None) -> Value:
    if rounding_mode == "floor":
        return apply_elementwise(_floor_quotient, a, b)
    if rounding_mode == "trunc":
        return apply_elementwise(_trunc_quotient, a, b)
    return apply_elementwise(lambda x, y: x / y, a, b)


def _trunc_quotient(dividend: Tensor, divisor: Any) -> Tensor:
    sign = divisor.sign() if isinstance(divisor, torch.Tensor) else math.copysign(1.0, divisor)
    return _floor_quotient(dividend.abs(), abs(divisor)) * dividend.sign() * sign


def _floor_quotient(dividend: Tensor, divisor: Any) -> Tensor:
    # ncnn multiplies by the reciprocal, so the rounded quotient of two integers may be one too
    # small or one too large. The remainder is exact and corrects it.
    sign = divisor.sign() if isinstance(divisor, torch.Tensor) else math.copysign(1.0, divisor)
    quotient = (dividend / divisor).floor()
    remainder = (dividend - quotient * divisor) * sign
    too_small = 1.0 - (abs(divisor) - remainder).sign().clamp(0.0, 1.0)
    too_large = (-remainder).sign().clamp(0.0, 1.0)
    corrected: Tensor = quotient + (too_small - too_large)
    return corrected


def write_atan2(a: Value, b: Value) -> Value:
    return apply_elementwise(torch.atan2, a, b)


def write_pow(a: Any, b: Operand) -> Value:
    b = _unwrap_scalar(b)
    if not isinstance(b, float):
        return apply_elementwise(torch.pow, a, b)
    if b == 2:
        return apply_unary(torch.square, a)
    if b == 3:
        return write_mul(apply_unary(torch.square, a), a)
    if b == 0.5:
        return apply_unary(torch.sqrt, a)
    return apply_elementwise(torch.pow, a, b)


def write_to_copy(operand: Value, *, dtype: torch.dtype | None = None, **_: object) -> Value:
    return cast_to(operand, dtype or operand.dtype)


def cast_to(operand: Value, target: torch.dtype) -> Value:
    """Return a value converted to another dtype; a blob's elements are still stored as float32.

    Conversion to an integer dtype truncates; conversion to bool returns 0 or 1.
    """
    if not isinstance(operand, Blob):
        return operand.to(target)
    if target is operand.dtype or target.is_floating_point:
        return operand
    if target is torch.bool:
        return apply_elementwise(not_equal, operand, 0.0)
    if not operand.dtype.is_floating_point:
        return operand
    # Infinity becomes a number, as in PyTorch: zero times infinity would be NaN.
    return apply_unary(lambda t: t.clamp(-_INFINITY_AS_INDEX, _INFINITY_AS_INDEX).trunc(), operand)


def not_equal(a: Tensor, b: Tensor | float) -> Tensor:
    """Return 1 where two numbers differ, and 0 elsewhere."""
    return (a - b).sign().abs()


#: The integer that infinity is converted to: larger than any index, and exact in float32.
_INFINITY_AS_INDEX = 2.0**31


def as_bool(value: Operand) -> Operand:
    """Convert numbers to booleans: zero to 0.0, and every other number to 1.0."""
    if isinstance(value, Value):
        return cast_to(value, torch.bool)
    return float(bool(value))


#: The writers of this file by the names of their operators.
WRITERS: dict[str, Callable[..., Any]] = {
    "add": write_add,
    "sub": write_sub,
    "mul": write_mul,
    "neg": write_neg,
    "div": write_div,
    "pow": write_pow,
    "atan2": write_atan2,
    "_to_copy": write_to_copy,
}
