"""Lowerings of complex operators to real operators, for finite real and imaginary parts."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

from enginebay_rewriters.portable.common import lowers, lowers_complex, torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from enginebay.authors import LoweringContext

_Operand: TypeAlias = "Tensor | complex"
#: The real or the imaginary part of an operand; None if the part is zero.
_Part: TypeAlias = "Tensor | float | None"

#: Operators that are applied to each part alone: they move, add or select elements.
_PARTWISE = (
    *("view", "_unsafe_view", "permute", "transpose", "t", "expand"),
    *("unsqueeze", "squeeze", "slice", "select", "index_select", "index", "gather", "flip", "roll"),
    *("repeat", "unfold", "diagonal", "clone", "alias", "neg", "sum", "mean", "cumsum"),
    *("tril", "triu", "detach", "lift_fresh_copy"),
)

#: Operators that are applied to each part alone, and return a list of tensors.
_PARTWISE_LISTS = ("split_with_sizes", "split", "unbind")


def _split_parts(x: _Operand) -> tuple[Any, Any]:
    """Return the real and the imaginary part; None for a part that is known to be zero."""
    if isinstance(x, torch.Tensor):
        return (x.real, x.imag) if x.is_complex() else (x, None)
    # 0 keeps its real part, so that a product or a sum has at least one part.
    return (x.real if x.real or not x.imag else None), (x.imag or None)


def _dense_parts(x: _Operand) -> tuple[Any, Any]:
    """Return the real and the imaginary part; a part that is known to be zero is 0, not None."""
    if not isinstance(x, torch.Tensor):
        return x.real, x.imag
    return _split_parts(x) if x.is_complex() else (x, torch.zeros_like(x))


def _add_parts(a: _Part, b: _Part) -> _Part:
    if a is None or b is None:
        return b if a is None else a
    return a + b


def _multiply_parts(a: _Part, b: _Part) -> _Part:
    return None if a is None or b is None else a * b


def _negate_part(a: _Part) -> _Part:
    return None if a is None else -a


def _join_parts(real: Any, imag: Any) -> Tensor:
    """Broadcast a real and an imaginary part, and return the complex tensor of both."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true, sym_eq

    real, imag = (0.0 if part is None else part for part in (real, imag))
    if not isinstance(real, torch.Tensor):
        real = torch.full_like(imag, real)
    if not isinstance(imag, torch.Tensor):
        imag = torch.full_like(real, imag)
    if not statically_known_true(sym_eq(real.shape, imag.shape)):
        real, imag = torch.broadcast_tensors(real, imag)  # type: ignore[no-untyped-call]
    return torch.complex(real, imag)


def _lower_by_part(name: str) -> Callable[..., Tensor]:
    def lowering(ctx: LoweringContext, x: Tensor, *args: object, **kwargs: object) -> Tensor:
        function = getattr(torch.ops.aten, name)
        return torch.complex(*(function(part, *args, **kwargs) for part in _split_parts(x)))

    return lowering


def _lower_list_by_part(name: str) -> Callable[..., list[Tensor]]:
    def lowering(ctx: LoweringContext, x: Tensor, *args: object) -> list[Tensor]:
        function = getattr(torch.ops.aten, name)
        pieces = (function(part, *args) for part in _split_parts(x))
        return [torch.complex(*pair) for pair in zip(*pieces, strict=True)]

    return lowering


for _name in _PARTWISE:
    lowers_complex(_name)(_lower_by_part(_name))
for _name in _PARTWISE_LISTS:
    lowers_complex(_name)(_lower_list_by_part(_name))


@lowers_complex("cat")
def cat(ctx: LoweringContext, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    pairs = [_dense_parts(each) for each in tensors]
    return torch.complex(*(torch.cat(list(parts), dim) for parts in zip(*pairs, strict=True)))


@lowers_complex("stack")
def stack(ctx: LoweringContext, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    return torch.cat([each.unsqueeze(dim) for each in tensors], dim)


@lowers_complex("constant_pad_nd")
def pad(ctx: LoweringContext, x: Tensor, sizes: Sequence[int], value: complex = 0) -> Tensor:
    pairs = zip(_split_parts(x), (value.real, value.imag), strict=True)
    return torch.complex(*(torch.constant_pad_nd(part, sizes, fill) for part, fill in pairs))


@lowers_complex("pad")
def pad_by(
    ctx: LoweringContext,
    x: Tensor,
    sizes: Sequence[int],
    mode: str = "constant",
    value: complex | None = None,
) -> Tensor:
    if mode == "constant":
        return pad(ctx, x, sizes, value or 0)
    return torch.complex(*(torch.nn.functional.pad(part, sizes, mode) for part in _split_parts(x)))


@lowers_complex("where")
def where(ctx: LoweringContext, condition: Tensor, x: _Operand, other: _Operand) -> Tensor:
    pairs = zip(_dense_parts(x), _dense_parts(other), strict=True)
    return torch.complex(*(torch.where(condition, *pair) for pair in pairs))


@lowers_complex("masked_fill")
def masked_fill(ctx: LoweringContext, x: Tensor, mask: Tensor, value: _Operand) -> Tensor:
    pairs = zip(_dense_parts(x), _dense_parts(value), strict=True)
    return torch.complex(*(part.masked_fill(mask, fill) for part, fill in pairs))


@lowers_complex("_to_copy")
def to_copy(
    ctx: LoweringContext, x: Tensor, *, dtype: torch.dtype | None = None, **_: object
) -> Tensor:
    if dtype is None or (x.is_complex() and dtype is x.dtype):
        return x.clone()
    if not dtype.is_complex:
        return x.real.to(dtype)
    real = dtype.to_real()
    return _join_parts(*(None if part is None else part.to(real) for part in _split_parts(x)))


@lowers_complex("slice_scatter", "select_scatter")
def scatter_slices(
    ctx: LoweringContext, x: Tensor, source: Tensor, *args: object, **kwargs: object
) -> Tensor:
    pairs = zip(_dense_parts(x), _dense_parts(source), strict=True)
    return torch.complex(*(ctx.origin_op(*pair, *args, **kwargs) for pair in pairs))


@lowers_complex("copy")
def copy(ctx: LoweringContext, x: Tensor, source: Tensor, *_: object) -> Tensor:
    return source.to(x.dtype).expand(x.shape).clone()


@lowers_complex("full", "scalar_tensor")
def full(ctx: LoweringContext, *args: Any, dtype: torch.dtype | None = None, **_: object) -> Tensor:
    *sizes, value = args
    real = torch.get_default_dtype() if dtype is None else dtype.to_real()
    shape = sizes[0] if sizes else ()
    return torch.complex(*(torch.full(shape, part, dtype=real) for part in _dense_parts(value)))


@lowers_complex("zeros", "empty")
def zeros(ctx: LoweringContext, size: Sequence[int], *, dtype: torch.dtype, **_: object) -> Tensor:
    return full(ctx, size, 0.0, dtype=dtype)


@lowers_complex("full_like")
def full_like(ctx: LoweringContext, x: Tensor, value: complex, **_: object) -> Tensor:
    real = x.real if x.is_complex() else x
    return torch.complex(*(torch.full_like(real, part) for part in _dense_parts(value)))


@lowers_complex("zeros_like")
def zeros_like(ctx: LoweringContext, x: Tensor, **_: object) -> Tensor:
    return torch.complex(torch.zeros_like(x.real), torch.zeros_like(x.real))


@lowers_complex("ones_like")
def ones_like(ctx: LoweringContext, x: Tensor, **_: object) -> Tensor:
    return torch.complex(torch.ones_like(x.real), torch.zeros_like(x.real))


@lowers_complex("add")
def add(ctx: LoweringContext, x: _Operand, other: _Operand, alpha: float = 1) -> Tensor:
    real, imag = _split_parts(other)
    if alpha != 1:
        real, imag = _multiply_parts(real, alpha), _multiply_parts(imag, alpha)
    x_real, x_imag = _split_parts(x)
    return _join_parts(_add_parts(x_real, real), _add_parts(x_imag, imag))


@lowers_complex("sub")
def sub(ctx: LoweringContext, x: _Operand, other: _Operand, alpha: float = 1) -> Tensor:
    return add(ctx, x, other, -alpha)


@lowers_complex("rsub")
def rsub(ctx: LoweringContext, x: _Operand, other: _Operand, alpha: float = 1) -> Tensor:
    return add(ctx, mul(ctx, x, -alpha), other)


def _complex_product(x: _Operand, other: _Operand, times: Callable[..., _Part]) -> Tensor:
    # (a + bi)·(c + di) = (ac − bd) + (ad + bc)i
    (a, b), (c, d) = _split_parts(x), _split_parts(other)
    return _join_parts(
        _add_parts(times(a, c), _negate_part(times(b, d))), _add_parts(times(a, d), times(b, c))
    )


@lowers_complex("mul")
def mul(ctx: LoweringContext, x: _Operand, other: _Operand) -> Tensor:
    return _complex_product(x, other, _multiply_parts)


@lowers_complex("mm", "bmm", "matmul", "mv", "dot")
def matmul(ctx: LoweringContext, x: Tensor, other: Tensor) -> Tensor:
    return _complex_product(x, other, lambda a, b: None if a is None or b is None else a @ b)


@lowers_complex("addmm", "baddbmm")
def addmm(
    ctx: LoweringContext, x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    product = a @ b
    return (x if beta == 1 else x * beta) + (product if alpha == 1 else product * alpha)


@lowers_complex("div.Tensor", "div.Scalar")
def div(ctx: LoweringContext, x: _Operand, other: _Operand) -> Tensor:
    real, imag = _split_parts(other)
    if imag is None:
        return _join_parts(*(None if part is None else part / real for part in _split_parts(x)))
    if isinstance(other, complex):
        return mul(ctx, x, 1 / other)
    # x / y = x·ȳ / |y|²
    return div(ctx, mul(ctx, x, other.conj()), _squared_magnitude(other))


@lowers_complex("reciprocal")
def reciprocal(ctx: LoweringContext, x: Tensor) -> Tensor:
    return x.conj() / _squared_magnitude(x)


def _squared_magnitude(x: Tensor) -> Tensor:
    return x.real * x.real + x.imag * x.imag


@lowers_complex("_conj", "_conj_physical")
def conj(ctx: LoweringContext, x: Tensor) -> Tensor:
    return torch.complex(x.real, -x.imag)


@lowers_complex("abs")
def magnitude(ctx: LoweringContext, x: Tensor) -> Tensor:
    return torch.hypot(x.real, x.imag)


@lowers_complex("angle")
def angle(ctx: LoweringContext, x: Tensor) -> Tensor:
    return torch.atan2(x.imag, x.real)


@lowers_complex("sgn")
def sgn(ctx: LoweringContext, x: Tensor) -> Tensor:
    length = x.abs()
    return x / torch.where(length > 0, length, 1)


@lowers_complex("exp")
def exp(ctx: LoweringContext, x: Tensor) -> Tensor:
    return torch.polar(x.real.exp(), x.imag)


@lowers_complex("log")
def log(ctx: LoweringContext, x: Tensor) -> Tensor:
    return torch.complex(x.abs().log(), x.angle())


@lowers_complex("sqrt")
def sqrt(ctx: LoweringContext, x: Tensor) -> Tensor:
    return torch.polar(x.abs().sqrt(), x.angle() / 2)


@lowers_complex("pow.Tensor_Scalar")
def power(ctx: LoweringContext, x: Tensor, exponent: float | complex) -> Tensor:
    if isinstance(exponent, complex):
        return exp(ctx, x.log() * exponent)
    if exponent in (1, 2, 3, 4):
        return reduce(torch.mul, [x.clone(), *[x] * (int(exponent) - 1)])
    return torch.polar(x.abs() ** exponent, x.angle() * exponent)


@lowers("polar", open_sizes=True)
def polar(ctx: LoweringContext, length: Tensor, angle: Tensor) -> Tensor:
    return torch.complex(length * angle.cos(), length * angle.sin())


@lowers("view_as_complex", open_sizes=True)
def view_as_complex(ctx: LoweringContext, x: Tensor) -> Tensor:
    return torch.complex(x.select(-1, 0), x.select(-1, 1))
