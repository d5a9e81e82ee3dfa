"""Complex numbers as their real and imaginary parts; of finite numbers."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from enginebay.rewriting.portable.common import lowers, of_complex, torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from enginebay.rewriting.lowering import LoweringContext

#: Operators that do the same to both parts: they move numbers, add them up, or drop an axis.
_BOTH = (
    *("view", "_unsafe_view", "permute", "transpose", "t", "expand"),
    *("unsqueeze", "squeeze", "slice", "select", "index_select", "index", "gather", "flip", "roll"),
    *("repeat", "unfold", "diagonal", "clone", "alias", "neg", "sum", "mean", "cumsum"),
    *("tril", "triu", "detach", "lift_fresh_copy"),
)

#: Those that take or return a list of tensors.
_LISTS = ("split_with_sizes", "split", "unbind")


def _parts(x: Any) -> tuple[Any, Any]:
    """The real and the imaginary part of a tensor or a number; None for one that is zero."""
    if isinstance(x, torch.Tensor):
        return (x.real, x.imag) if x.is_complex() else (x, None)
    return (x.real if x.real or not x.imag else None), (x.imag or None)


def _both_parts(x: Any) -> tuple[Any, Any]:
    """The same with zeros in place of None."""
    if not isinstance(x, torch.Tensor):
        return x.real, x.imag
    return _parts(x) if x.is_complex() else (x, torch.zeros_like(x))


def _plus(a: Any, b: Any) -> Any:
    """The sum of two parts, either of which may be missing."""
    if a is None or b is None:
        return b if a is None else a
    return a + b


def _times(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a * b


def _minus(a: Any) -> Any:
    return None if a is None else -a


def _joined(real: Any, imag: Any) -> Tensor:
    """A complex tensor of parts, which are broadcast; either may be None or a number."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true, sym_eq

    real, imag = (0.0 if part is None else part for part in (real, imag))
    if not isinstance(real, torch.Tensor):
        real = torch.full_like(imag, real)
    if not isinstance(imag, torch.Tensor):
        imag = torch.full_like(real, imag)
    if not statically_known_true(sym_eq(real.shape, imag.shape)):
        real, imag = torch.broadcast_tensors(real, imag)  # type: ignore[no-untyped-call]
    return torch.complex(real, imag)


def _of_both(name: str) -> Callable[..., Any]:
    def lowering(ctx: LoweringContext, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        function = getattr(torch.ops.aten, name)
        return torch.complex(*(function(part, *args, **kwargs) for part in _parts(x)))

    return lowering


def _of_lists(name: str) -> Callable[..., Any]:
    def lowering(ctx: LoweringContext, x: Tensor, *args: Any) -> list[Tensor]:
        function = getattr(torch.ops.aten, name)
        pieces = (function(part, *args) for part in _parts(x))
        return [torch.complex(*pair) for pair in zip(*pieces, strict=True)]

    return lowering


for _name in _BOTH:
    of_complex(_name)(_of_both(_name))
for _name in _LISTS:
    of_complex(_name)(_of_lists(_name))


@of_complex("cat")
def cat(ctx: LoweringContext, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    pairs = [_both_parts(each) for each in tensors]
    return torch.complex(*(torch.cat(list(parts), dim) for parts in zip(*pairs, strict=True)))


@of_complex("stack")
def stack(ctx: LoweringContext, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    return torch.cat([each.unsqueeze(dim) for each in tensors], dim)


@of_complex("constant_pad_nd")
def pad(ctx: LoweringContext, x: Tensor, sizes: Sequence[int], value: Any = 0) -> Tensor:
    pairs = zip(_parts(x), (value.real, value.imag), strict=True)
    return torch.complex(*(torch.constant_pad_nd(part, sizes, own) for part, own in pairs))


@of_complex("pad")
def pad_by(
    ctx: LoweringContext, x: Tensor, sizes: Sequence[int], mode: str = "constant", value: Any = None
) -> Tensor:
    if mode == "constant":
        return pad(ctx, x, sizes, value or 0)
    return torch.complex(*(torch.nn.functional.pad(part, sizes, mode) for part in _parts(x)))


@of_complex("where")
def where(ctx: LoweringContext, condition: Tensor, x: Any, other: Any) -> Tensor:
    pairs = zip(_both_parts(x), _both_parts(other), strict=True)
    return torch.complex(*(torch.where(condition, *pair) for pair in pairs))


@of_complex("masked_fill")
def masked_fill(ctx: LoweringContext, x: Tensor, mask: Tensor, value: Any) -> Tensor:
    pairs = zip(_both_parts(x), _both_parts(value), strict=True)
    return torch.complex(*(part.masked_fill(mask, own) for part, own in pairs))


@of_complex("_to_copy")
def to_copy(
    ctx: LoweringContext, x: Tensor, *, dtype: torch.dtype | None = None, **_: Any
) -> Tensor:
    if dtype is None or (x.is_complex() and dtype is x.dtype):
        return x.clone()
    if not dtype.is_complex:
        return x.real.to(dtype)
    own = dtype.to_real()
    return _joined(*(None if part is None else part.to(own) for part in _parts(x)))


@of_complex("slice_scatter", "select_scatter")
def scattered(ctx: LoweringContext, x: Tensor, source: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    pairs = zip(_both_parts(x), _both_parts(source), strict=True)
    return torch.complex(*(ctx.origin_op(*pair, *args, **kwargs) for pair in pairs))


@of_complex("copy")
def copy(ctx: LoweringContext, x: Tensor, source: Tensor, *_: Any) -> Tensor:
    found: Tensor = source.to(x.dtype).expand(x.shape).clone()
    return found


@of_complex("full", "scalar_tensor")
def full(ctx: LoweringContext, *args: Any, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    *sizes, value = args
    own = torch.get_default_dtype() if dtype is None else dtype.to_real()
    shape = sizes[0] if sizes else ()
    return torch.complex(*(torch.full(shape, each, dtype=own) for each in _both_parts(value)))


@of_complex("zeros", "empty")
def zeros(ctx: LoweringContext, size: Sequence[int], *, dtype: torch.dtype, **_: Any) -> Tensor:
    return full(ctx, size, 0.0, dtype=dtype)


@of_complex("full_like")
def full_like(ctx: LoweringContext, x: Tensor, value: Any, **_: Any) -> Tensor:
    real = x.real if x.is_complex() else x
    return torch.complex(*(torch.full_like(real, own) for own in _both_parts(value)))


@of_complex("zeros_like")
def zeros_like(ctx: LoweringContext, x: Tensor, **_: Any) -> Tensor:
    return torch.complex(torch.zeros_like(x.real), torch.zeros_like(x.real))


@of_complex("ones_like")
def ones_like(ctx: LoweringContext, x: Tensor, **_: Any) -> Tensor:
    return torch.complex(torch.ones_like(x.real), torch.zeros_like(x.real))


@of_complex("add")
def add(ctx: LoweringContext, x: Any, other: Any, alpha: Any = 1) -> Tensor:
    real, imag = _parts(other)
    if alpha != 1:
        real, imag = _times(real, alpha), _times(imag, alpha)
    return _joined(*(_plus(own, each) for own, each in zip(_parts(x), (real, imag), strict=True)))


@of_complex("sub")
def sub(ctx: LoweringContext, x: Any, other: Any, alpha: Any = 1) -> Tensor:
    return add(ctx, x, other, -alpha)


@of_complex("rsub")
def rsub(ctx: LoweringContext, x: Any, other: Any, alpha: Any = 1) -> Tensor:
    return add(ctx, mul(ctx, x, -alpha), other)


def _product(x: Any, other: Any, times: Callable[[Any, Any], Any]) -> Tensor:
    (real, imag), (own_real, own_imag) = _parts(x), _parts(other)
    return _joined(
        _plus(times(real, own_real), _minus(times(imag, own_imag))),
        _plus(times(real, own_imag), times(imag, own_real)),
    )


@of_complex("mul")
def mul(ctx: LoweringContext, x: Any, other: Any) -> Tensor:
    return _product(x, other, _times)


@of_complex("mm", "bmm", "matmul", "mv", "dot")
def matmul(ctx: LoweringContext, x: Tensor, other: Tensor) -> Tensor:
    return _product(x, other, lambda a, b: None if a is None or b is None else a @ b)


@of_complex("addmm", "baddbmm")
def addmm(
    ctx: LoweringContext, bias: Tensor, x: Tensor, other: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    product = x @ other
    return (bias if beta == 1 else bias * beta) + (product if alpha == 1 else product * alpha)


@of_complex("div.Tensor", "div.Scalar")
def div(ctx: LoweringContext, x: Any, other: Any) -> Tensor:
    real, imag = _parts(other)
    if imag is None:
        return _joined(*(None if part is None else part / real for part in _parts(x)))
    if isinstance(other, complex):
        return mul(ctx, x, 1 / other)
    return div(ctx, mul(ctx, x, other.conj()), _squares(other))


@of_complex("reciprocal")
def reciprocal(ctx: LoweringContext, x: Tensor) -> Tensor:
    return x.conj() / _squares(x)


def _squares(x: Tensor) -> Tensor:
    found: Tensor = x.real * x.real + x.imag * x.imag
    return found


@of_complex("_conj", "_conj_physical")
def conj(ctx: LoweringContext, x: Tensor) -> Tensor:
    return torch.complex(x.real, -x.imag)


@of_complex("abs")
def magnitude(ctx: LoweringContext, x: Tensor) -> Tensor:
    return torch.hypot(x.real, x.imag)


@of_complex("angle")
def angle(ctx: LoweringContext, x: Tensor) -> Tensor:
    return torch.atan2(x.imag, x.real)


@of_complex("sgn")
def sgn(ctx: LoweringContext, x: Tensor) -> Tensor:
    length = x.abs()
    return x / torch.where(length > 0, length, 1)


@of_complex("exp")
def exp(ctx: LoweringContext, x: Tensor) -> Tensor:
    return torch.polar(x.real.exp(), x.imag)


@of_complex("log")
def log(ctx: LoweringContext, x: Tensor) -> Tensor:
    return torch.complex(x.abs().log(), x.angle())


@of_complex("sqrt")
def sqrt(ctx: LoweringContext, x: Tensor) -> Tensor:
    return torch.polar(x.abs().sqrt(), x.angle() / 2)


@of_complex("pow.Tensor_Scalar")
def power(ctx: LoweringContext, x: Tensor, exponent: Any) -> Tensor:
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
