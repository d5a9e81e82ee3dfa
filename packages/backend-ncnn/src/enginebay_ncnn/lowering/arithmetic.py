"""Elementwise operators on tensors of any rank, and integers as floats."""

# ruff: noqa: D103 - each lowering is documented by the operator whose name it carries
from __future__ import annotations

import math
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import torch

from enginebay_ncnn.lowering.layout import (
    MAX_RANK,
    as_three,
    axis_of,
    is_front,
    lower_expand,
    lower_permute,
    lower_squeeze,
    reshape,
)
from enginebay_ncnn.lowering.registry import as_float, count_of, is_constant, lowers, sizes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


#: Whether no softmax may look to pnnx like the middle of an attention, which it makes one layer of:
#: some of these it writes wrongly, and on some it ends.
ATTENTION_APART: ContextVar[bool] = ContextVar("ATTENTION_APART", default=False)


_LARGEST = torch.finfo(torch.float32).max


def elementwise(function: Callable[..., Tensor], *operands: Any) -> Tensor:
    """Apply a function to operands that broadcast, with as few dimensions as they need."""
    operands = tuple(map(_scalar, operands))
    tensors = [
        as_float(each) if isinstance(each, torch.Tensor) else torch.tensor(float(each))
        for each in operands
    ]
    shape = broadcast(*(sizes_of(each) for each in tensors))
    if len(shape) <= MAX_RANK:
        plain = [
            t if isinstance(each, torch.Tensor) else float(each)
            for t, each in zip(tensors, operands, strict=True)
        ]
        if not isinstance(plain[0], torch.Tensor):
            plain[0] = tensors[0]
        return function(*plain)
    if all(tuple(sizes_of(each)) == shape for each in tensors):
        rows = [reshape(each, (1, math.prod(shape[:-1]), shape[-1])) for each in tensors]
        return reshape(function(*rows), shape)
    padded = [(1,) * (len(shape) - each.ndim) + tuple(sizes_of(each)) for each in tensors]
    merged = _merged(padded, shape)
    if len(merged[0]) > MAX_RANK:
        return elementwise(function, *(lower_expand(each, shape) for each in tensors))
    small = [reshape(t, sizes) for t, sizes in zip(tensors, merged, strict=True)]
    return reshape(function(*small), shape)


def flat(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply a function of single elements to a tensor of any rank."""
    if x.ndim <= MAX_RANK:
        return function(x)
    shape = sizes_of(x)
    return reshape(function(reshape(x, (1, math.prod(shape[:-1]), shape[-1]))), shape)


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that tensors of these shapes have together."""
    broadcast_shapes: Any = torch.broadcast_shapes
    return tuple(broadcast_shapes(*shapes))


def _scalar(operand: Any) -> Any:
    """A constant of one number as that number."""
    if isinstance(operand, torch.Tensor) and is_constant(operand) and operand.ndim == 0:
        operand = float(operand)
    if isinstance(operand, float):  # pnnx crashes on the infinity of a comparison
        return max(-_LARGEST, min(_LARGEST, operand))
    return operand


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


@lowers("add")
def lower_add(a: Any, b: Any, alpha: float = 1) -> Tensor:
    return elementwise(lambda x, y: x + (y if alpha == 1 else y * alpha), a, b)


@lowers("sub", "subtract")
def lower_sub(a: Any, b: Any, alpha: float = 1) -> Tensor:
    return elementwise(lambda x, y: x - (y if alpha == 1 else y * alpha), a, b)


@lowers("rsub")
def lower_rsub(a: Any, b: Any, alpha: float = 1) -> Tensor:
    return elementwise(lambda x, y: (y - x) if alpha == 1 else y - x * alpha, a, b)


@lowers("mul", "multiply")
def lower_mul(a: Any, b: Any) -> Tensor:
    if a is b:  # one layer, where two operands would be three
        return lower_square(a)
    return elementwise(lambda x, y: x * y, a, b)


@lowers("neg")
def lower_neg(x: Tensor) -> Tensor:
    # No negation: with one pnnx makes a RotaryEmbed of x * cos + rotate_half(x) * sin, behind which
    # it takes the wrong axis, and which reads half of cos and sin only (Tencent/ncnn#6833).
    return flat(lambda t: t * -1.0, x)


@lowers("div", "true_divide", "divide")
def lower_div(a: Any, b: Any, rounding_mode: str | None = None) -> Tensor:
    if rounding_mode == "floor":
        return lower_floor_divide(a, b)
    result = elementwise(lambda x, y: x / y, a, b)
    return flat(torch.trunc, result) if rounding_mode == "trunc" else result


@lowers("floor_divide")
def lower_floor_divide(a: Any, b: Any) -> Tensor:
    return elementwise(lambda x, y: _divided(x, y)[0], a, b)


@lowers("remainder")
def lower_remainder(a: Any, b: Any) -> Tensor:
    return elementwise(lambda x, y: _divided(x, y)[1], a, b)


@lowers("fmod")
def lower_fmod(a: Any, b: Any) -> Tensor:
    return elementwise(lambda x, y: _divided(x.abs(), abs(y))[1] * x.sign(), a, b)


def _divided(x: Tensor, y: Any) -> tuple[Tensor, Tensor]:
    """The quotient rounded down, and the remainder.

    ncnn multiplies with the reciprocal, so the quotient of whole numbers may be one too small or
    one too large; the remainder, which is exact, shows it.
    """
    sign = y.sign() if isinstance(y, torch.Tensor) else math.copysign(1.0, y)
    quotient = (x / y).floor()
    rest = (x - quotient * y) * sign
    missing = 1.0 - (abs(y) - rest).sign().clamp(0.0, 1.0)
    missing = missing - (-rest).sign().clamp(0.0, 1.0)
    return quotient + missing, rest * sign - missing * y


@lowers("atan2")
def lower_atan2(a: Tensor, b: Tensor) -> Tensor:
    return elementwise(torch.atan2, a, b)


@lowers("pow")
def lower_pow(a: Any, b: Any) -> Tensor:
    b = _scalar(b)
    if isinstance(b, torch.Tensor):
        return elementwise(torch.pow, a, b)
    if b == 2:
        return lower_square(a)
    if b == 3:
        return lower_mul(lower_square(a), a)
    if b == 0.5:
        return flat(torch.sqrt, a)
    return elementwise(torch.pow, a, b)


@lowers("exp2", "special_exp2")
def lower_exp2(x: Tensor) -> Tensor:
    return flat(lambda t: (t * math.log(2)).exp(), x)


@lowers("log2")
def lower_log2(x: Tensor) -> Tensor:
    return flat(lambda t: t.log() * (1 / math.log(2)), x)


@lowers("erfc", "special_erfc")
def lower_erfc(x: Tensor) -> Tensor:
    return flat(lambda t: 1.0 - t.erf(), x)


@lowers("hypot")
def lower_hypot(a: Tensor, b: Tensor) -> Tensor:
    return elementwise(lambda x, y: (x.square() + y.square()).sqrt(), a, b)


@lowers("ldexp")
def lower_ldexp(a: Tensor, b: Tensor) -> Tensor:
    return lower_mul(a, lower_exp2(b))


@lowers("dist")
def lower_dist(a: Tensor, b: Tensor, p: float = 2) -> Tensor:
    return lower_norm(lower_sub(a, b), p)


@lowers("square")
def lower_square(x: Tensor) -> Tensor:
    return flat(torch.square, as_float(x))


@lowers("softmax")
def lower_softmax(x: Tensor, dim: int, *_: Any) -> Tensor:
    dim = axis_of(x, dim)
    if x.ndim < MAX_RANK or (x.ndim == MAX_RANK and not ATTENTION_APART.get()):
        return x.softmax(dim)
    return reshape(as_three(x, dim).softmax(1), sizes_of(x))


def _reduce(
    function: Callable[..., Tensor], x: Tensor, dim: Any = None, keepdim: bool = False
) -> Tensor:
    """Reduce over dimensions of a tensor of any rank."""
    if dim is None or dim == []:
        return function(reshape(x, (count_of(x),)), 0, False)
    dims = sorted({axis_of(x, axis) for axis in ([dim] if isinstance(dim, int) else dim)})
    shape = sizes_of(x)
    if x.ndim <= MAX_RANK and not is_front(x, dims[0]):
        return function(x, dims, keepdim)
    kept = [axis for axis in range(x.ndim) if axis not in dims]
    rows = lower_permute(x, [*kept, *dims])
    rows = reshape(rows, (1, math.prod(shape[axis] for axis in kept), -1))
    sizes = [1 if axis in dims else n for axis, n in enumerate(shape) if keepdim or axis in kept]
    return reshape(function(rows, [2], False), sizes)


@lowers("sum")
def lower_sum(x: Tensor, dim: Any = None, keepdim: bool = False, **_: Any) -> Tensor:
    return _reduce(torch.sum, x, dim, keepdim)


@lowers("mean")
def lower_mean(x: Tensor, dim: Any = None, keepdim: bool = False, **_: Any) -> Tensor:
    return _reduce(torch.mean, x, dim, keepdim)


@lowers("amax", "max")
def lower_amax(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    return _reduce(torch.amax, x, dim, keepdim)


@lowers("amin", "min")
def lower_amin(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    return _reduce(torch.amin, x, dim, keepdim)


@lowers("prod")
def lower_prod(x: Tensor, dim: int | None = None, keepdim: bool = False, **_: Any) -> Tensor:
    def product(x: Tensor, dims: Any, keepdim: bool) -> Tensor:
        (axis,) = [dims] if isinstance(dims, int) else dims
        return torch.prod(x, axis, keepdim)

    return _reduce(product, x, dim, keepdim)


@lowers("norm", "linalg_vector_norm", "linalg_norm")
def lower_norm(
    x: Tensor, p: float | None = 2, dim: Any = None, keepdim: bool = False, **_: Any
) -> Tensor:
    if p is None or p == 2:
        return flat(torch.sqrt, lower_sum(lower_mul(x, x), dim, keepdim))
    if p == 1:
        return lower_sum(flat(torch.abs, x), dim, keepdim)
    if p == math.inf:
        return lower_amax(flat(torch.abs, x), dim, keepdim)
    total = lower_sum(flat(lambda t: t.abs() ** p, x), dim, keepdim)
    return flat(lambda t: t ** (1 / p), total)


@lowers("cosine_similarity")
def lower_cosine_similarity(a: Tensor, b: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    def unit(x: Tensor) -> Tensor:
        length = flat(lambda t: t.clamp(eps, 3e38), lower_norm(x, 2, dim, True))
        return lower_div(x, length)

    return lower_sum(lower_mul(unit(a), unit(b)), dim)


@lowers("logsumexp")
def lower_logsumexp(x: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    top = lower_amax(x, dim, True)
    total = lower_sum(flat(torch.exp, lower_sub(x, top)), dim, True)
    result = lower_add(flat(torch.log, total), top)
    return result if keepdim else lower_squeeze(result, dim)


@lowers("log_softmax")
def lower_log_softmax(x: Tensor, dim: int, *_: Any) -> Tensor:
    return lower_sub(x, lower_logsumexp(x, dim, True))


@lowers("var")
def lower_var(
    x: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    correction: float | None = None,
) -> Tensor:
    dims = list(range(x.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if isinstance(unbiased, bool):
        correction = float(unbiased)
    count = math.prod(sizes_of(x)[axis] for axis in dims)
    deviation = lower_sub(x, lower_mean(x, dims, True))
    total = lower_mean(lower_mul(deviation, deviation), dims, keepdim)
    return lower_mul(total, count / (count - (1.0 if correction is None else correction)))


@lowers("std")
def lower_std(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return flat(torch.sqrt, lower_var(x, *args, **kwargs))


@lowers("addcmul")
def lower_addcmul(x: Tensor, a: Tensor, b: Tensor, value: float = 1) -> Tensor:
    return lower_add(x, lower_mul(a, b), value)


@lowers("lerp")
def lower_lerp(a: Tensor, b: Tensor, weight: Any) -> Tensor:
    return elementwise(lambda x, y, w: x + (y - x) * w, a, b, weight)
