"""Elementwise operators on values of any rank, and integers as floats."""

# ruff: noqa: D103 - each function writes the operator whose name it carries
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from enginebay_ncnn.dialect.layout import MAX_RANK, reshape, write_expand
from enginebay_ncnn.dialect.values import Blob, Value, as_float, emit, is_constant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

LARGEST = torch.finfo(torch.float32).max


def elementwise(function: Callable[..., Tensor], *operands: Any) -> Value:
    """Apply a function to operands that broadcast, with as few dimensions as they need."""
    operands = tuple(map(_scalar, operands))
    values = [
        torch.tensor(each) if isinstance(each, float) else as_float(each) for each in operands
    ]
    shape = broadcast(*(each.shape for each in values))
    if sources := _reshaped_alike(values):
        return reshape(emit(function, *sources), shape)
    if len(shape) <= MAX_RANK:
        rank = max((each.ndim for each in values if isinstance(each, Blob)), default=0)
        values = [_shortest(each) if rank == len(shape) else each for each in values]
        rest = [
            number if isinstance(number, float) else value
            for number, value in zip(operands[1:], values[1:], strict=True)
        ]
        return emit(function, values[0], *rest)
    if all(tuple(each.shape) == shape for each in values):
        rows = [reshape(each, (1, math.prod(shape[:-1]), shape[-1])) for each in values]
        return reshape(emit(function, *rows), shape)
    padded = [(1,) * (len(shape) - each.ndim) + tuple(each.shape) for each in values]
    merged = _merged(padded, shape)
    if len(merged[0]) > MAX_RANK:
        return elementwise(function, *(write_expand(each, shape) for each in values))
    small = [reshape(each, sizes) for each, sizes in zip(values, merged, strict=True)]
    return reshape(emit(function, *small), shape)


def _reshaped_alike(values: Sequence[Value]) -> list[Blob]:
    """The blobs of which the values are reshapes, if these and those have one shape each.

    pnnx takes the wrong batch for some reshapes that it finds between operators.
    """
    sources = [each.reshape_of for each in values if isinstance(each, Blob) and each.reshape_of]
    shapes = {tuple(each.shape) for each in values}, {each.shape for each in sources}
    is_alike = len(sources) == len(values) and all(len(found) == 1 for found in shapes)
    return sources if is_alike and sources[0].ndim <= MAX_RANK else []


def flat(function: Callable[[Tensor], Tensor], x: Value) -> Value:
    """Apply a function of single elements to a value of any rank."""
    x = as_float(x)
    if sources := _reshaped_alike([x]):
        return reshape(emit(function, *sources), x.shape)
    if x.ndim <= MAX_RANK:
        return emit(function, x)
    shape = x.shape
    return reshape(emit(function, reshape(x, (1, math.prod(shape[:-1]), shape[-1]))), shape)


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that tensors of these shapes have together."""
    broadcast_shapes: Any = torch.broadcast_shapes
    return tuple(broadcast_shapes(*shapes))


def _scalar(operand: Any) -> Any:
    """A constant of one number as that number."""
    if isinstance(operand, torch.Tensor) and operand.ndim == 0:
        operand = operand.item()
    if isinstance(operand, bool | int | float):  # pnnx crashes on the infinity of a comparison
        return max(-LARGEST, min(LARGEST, float(operand)))
    return operand


def _shortest(value: Value) -> Value:
    """A constant without leading dimensions of size one, of which pnnx may take one for the batch.

    Where values with a batch and values without one share a constant, it is wrong for some.
    """
    if isinstance(value, Blob):
        return value
    front = next((axis for axis, size in enumerate(value.shape) if size != 1), value.ndim - 1)
    return value.reshape(value.shape[max(front, 0) :])


def _merged(shapes: list[tuple[int, ...]], result: tuple[int, ...]) -> list[list[int]]:
    """Shapes in which neighbouring dimensions that broadcast alike are one."""
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


def write_add(a: Any, b: Any, alpha: float = 1) -> Value:
    return elementwise(lambda x, y: x + (y if alpha == 1 else y * alpha), a, b)


def write_sub(a: Any, b: Any, alpha: float = 1) -> Value:
    return elementwise(lambda x, y: x - (y if alpha == 1 else y * alpha), a, b)


def write_mul(a: Any, b: Any) -> Value:
    if a is b:  # one layer, where two operands would be three
        return flat(torch.square, a)
    return elementwise(lambda x, y: x * y, a, b)


def write_neg(x: Value) -> Value:
    # No negation: with one pnnx makes a RotaryEmbed of x * cos + rotate_half(x) * sin, behind which
    # it takes the wrong axis, and which reads half of cos and sin only (Tencent/ncnn#6833).
    return flat(lambda t: t * -1.0, x)


def write_div(a: Any, b: Any, rounding_mode: str | None = None) -> Value:
    if rounding_mode == "floor":
        return elementwise(_quotient, a, b)
    if rounding_mode == "trunc":
        return elementwise(_whole_quotient, a, b)
    return elementwise(lambda x, y: x / y, a, b)


def _whole_quotient(x: Tensor, y: Any) -> Tensor:
    sign = y.sign() if isinstance(y, torch.Tensor) else math.copysign(1.0, y)
    return _quotient(x.abs(), abs(y)) * x.sign() * sign


def _quotient(x: Tensor, y: Any) -> Tensor:
    """The quotient rounded down.

    ncnn multiplies with the reciprocal, so the quotient of whole numbers may be one too small or
    one too large; the remainder, which is exact, shows it.
    """
    sign = y.sign() if isinstance(y, torch.Tensor) else math.copysign(1.0, y)
    quotient = (x / y).floor()
    rest = (x - quotient * y) * sign
    missing = 1.0 - (abs(y) - rest).sign().clamp(0.0, 1.0)
    found: Tensor = quotient + (missing - (-rest).sign().clamp(0.0, 1.0))
    return found


def write_atan2(a: Value, b: Value) -> Value:
    return elementwise(torch.atan2, a, b)


def write_pow(a: Any, b: Any) -> Value:
    b = _scalar(b)
    if not isinstance(b, float):
        return elementwise(torch.pow, a, b)
    if b == 2:
        return flat(torch.square, a)
    if b == 3:
        return write_mul(flat(torch.square, a), a)
    if b == 0.5:
        return flat(torch.sqrt, a)
    return elementwise(torch.pow, a, b)


def write_to_copy(x: Value, *, dtype: torch.dtype | None = None, **_: Any) -> Value:
    return cast(x, dtype or x.dtype)


def cast(x: Value, target: torch.dtype) -> Value:
    """A value as another dtype would hold it."""
    if not isinstance(x, Blob):
        return x.to(target)
    if target is x.dtype or target.is_floating_point:
        return x
    if target is torch.bool:
        return elementwise(differ, x, 0.0)
    if not x.dtype.is_floating_point:
        return x
    # As PyTorch does, make a number of infinity: products with it would not be zero.
    return flat(lambda t: t.clamp(-_LARGEST_PLACE, _LARGEST_PLACE).trunc(), x)


def differ(a: Tensor, b: Any) -> Tensor:
    """One where two numbers differ, else zero."""
    result: Tensor = (a - b).sign().abs()
    return result


#: What an infinity becomes: beyond any place in a table, and exact in float32.
_LARGEST_PLACE = 2.0**31


def is_true(value: Any) -> Any:
    """A value as one of truths: whether its numbers are not zero."""
    if isinstance(value, torch.Tensor) or not is_constant(value):
        return cast(value, torch.bool)
    return float(bool(value))
