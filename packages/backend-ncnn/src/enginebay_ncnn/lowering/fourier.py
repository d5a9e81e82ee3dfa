"""Fourier transforms of fixed size, as products with the matrix of the transform.

ncnn has no complex numbers: a :class:`Complex` is two tensors on the way.
"""

# ruff: noqa: D103 - each lowering is documented by the operator whose name it carries
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from enginebay_ncnn.lowering.arithmetic import lower_add, lower_div, lower_mul, lower_sub
from enginebay_ncnn.lowering.contraction import lower_einsum, lower_matmul
from enginebay_ncnn.lowering.images import lower_pad
from enginebay_ncnn.lowering.layout import (
    axis_of,
    lower_cat,
    lower_select,
    lower_stack,
    lower_transpose,
    narrow,
)
from enginebay_ncnn.lowering.registry import (
    LOWERINGS,
    UnsupportedError,
    constant,
    lowers,
    sizes_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor


@dataclass(frozen=True)
class Complex:
    """Complex numbers.

    Attributes:
        real: Their real parts.
        imag: Their imaginary parts, of the same shape.
    """

    real: Tensor
    imag: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of either part."""
        return sizes_of(self.real)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.real.ndim


_F = TypeVar("_F", bound="Callable[..., Any]")

#: Operators on complex numbers by their names.
_COMPLEX: dict[str, Callable[..., Any]] = {}

#: Operators that move numbers, whatever they are.
_MOVES = frozenset(
    (
        *("view", "reshape", "flatten", "unsqueeze", "squeeze", "permute", "transpose", "t"),
        *("slice", "select", "narrow", "expand", "contiguous", "clone", "detach", "alias", "roll"),
        *("repeat", "sum", "mean", "neg", "constant_pad_nd", "movedim", "index_select", "flip"),
    )
)


def apply(name: str, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """An operator of whose arguments some are complex.

    Raises:
        UnsupportedError: It is not one of those that are known here.
    """
    if name in _COMPLEX:
        return _COMPLEX[name](*arguments, **keywords)
    if name in ("cat", "stack"):
        parts = [as_complex(each) for each in arguments[0]]
        move = lower_cat if name == "cat" else lower_stack
        return Complex(
            move([each.real for each in parts], *arguments[1:]),
            move([each.imag for each in parts], *arguments[1:]),
        )
    if name not in _MOVES:
        raise UnsupportedError(f"{name} of complex numbers")
    first, *rest = arguments
    act: Any = LOWERINGS[name] if name != "neg" else torch.neg
    return Complex(act(first.real, *rest, **keywords), act(first.imag, *rest, **keywords))


def _on(*names: str) -> Callable[[_F], _F]:
    def declare(function: _F) -> _F:
        _COMPLEX.update(dict.fromkeys(names, function))
        return function

    return declare


def _is_tensor(x: Any) -> bool:
    return isinstance(x, torch.Tensor)


def is_complex(x: Any) -> bool:
    """Whether some numbers are complex."""
    return isinstance(x, Complex | complex) or (_is_tensor(x) and x.is_complex())


def as_complex(x: Any) -> Complex:
    """Any numbers as complex ones."""
    if isinstance(x, Complex):
        return x
    if isinstance(x, complex):
        return Complex(constant(torch.tensor(x.real)), constant(torch.tensor(x.imag)))
    if _is_tensor(x) and x.is_complex():
        return Complex(constant(x.real.contiguous()), constant(x.imag.contiguous()))
    x = x if _is_tensor(x) else torch.tensor(float(x))
    return Complex(x, constant(torch.zeros(sizes_of(x))))


@_on("mul", "multiply")
def multiply(a: Any, b: Any) -> Complex:
    if not isinstance(a, Complex):
        a, b = b, a
    if not is_complex(b):
        return Complex(lower_mul(a.real, b), lower_mul(a.imag, b))
    b = as_complex(b)
    return Complex(
        lower_sub(lower_mul(a.real, b.real), lower_mul(a.imag, b.imag)),
        lower_add(lower_mul(a.real, b.imag), lower_mul(a.imag, b.real)),
    )


@_on("matmul", "bmm", "mm")
def product(a: Any, b: Any) -> Complex:
    return _of_parts(lower_matmul, a, b)


@_on("einsum")
def contract(equation: str, operands: Sequence[Any], **_: Any) -> Complex:
    if len(operands) != 2:
        raise UnsupportedError("einsum of other than two tensors of complex numbers")
    return _of_parts(lambda *parts: lower_einsum(equation, parts), *operands)


def _of_parts(function: Callable[[Tensor, Tensor], Tensor], a: Any, b: Any) -> Complex:
    """A product of complex numbers by what gives it for real ones."""
    a, b = as_complex(a), as_complex(b)
    return Complex(
        lower_sub(function(a.real, b.real), function(a.imag, b.imag)),
        lower_add(function(a.real, b.imag), function(a.imag, b.real)),
    )


@_on("div", "true_divide")
def divide(a: Complex, b: Any) -> Complex:
    if isinstance(b, Complex):
        raise UnsupportedError("a quotient of complex numbers")
    return Complex(lower_div(a.real, b), lower_div(a.imag, b))


@_on("add")
def add(a: Any, b: Any, alpha: float = 1) -> Complex:
    a, b = as_complex(a), as_complex(b)
    return Complex(lower_add(a.real, b.real, alpha), lower_add(a.imag, b.imag, alpha))


@_on("sub")
def subtract(a: Any, b: Any, alpha: float = 1) -> Complex:
    a, b = as_complex(a), as_complex(b)
    return Complex(lower_sub(a.real, b.real, alpha), lower_sub(a.imag, b.imag, alpha))


@_on("real")
def real(x: Complex) -> Tensor:
    return x.real


@_on("imag")
def imag(x: Complex) -> Tensor:
    return x.imag


@_on("conj", "_conj", "conj_physical")
def conj(x: Complex) -> Complex:
    return Complex(x.real, -x.imag)


@_on("resolve_conj", "resolve_neg", "to", "_to_copy")
def same(x: Complex, *_: Any, **__: Any) -> Complex:
    return x


@_on("abs")
def magnitude(x: Complex) -> Tensor:
    return lower_add(lower_mul(x.real, x.real), lower_mul(x.imag, x.imag)).sqrt()


@_on("view_as_real")
def view_as_real(x: Complex) -> Tensor:
    return lower_stack([x.real, x.imag], -1)


@lowers("view_as_complex")
def lower_view_as_complex(x: Tensor) -> Complex:
    return Complex(lower_select(x, -1, 0), lower_select(x, -1, 1))


@lowers("complex")
def lower_complex(real: Tensor, imag: Tensor) -> Complex:
    return Complex(real, imag)


@lowers("polar")
def lower_polar(magnitude: Tensor, angle: Tensor) -> Complex:
    return Complex(lower_mul(magnitude, angle.cos()), lower_mul(magnitude, angle.sin()))


def _scale(norm: str | None, count: int, *, inverse: bool) -> float:
    """What a transform of ``count`` numbers is multiplied with."""
    if norm == "ortho":
        return math.sqrt(1.0 / count)
    return 1.0 / count if inverse == (norm in (None, "backward")) else 1.0


def _sized(x: Complex, dim: int, size: int | None) -> Complex:
    """A dimension cut, or filled up with zeros."""
    own = x.shape[dim]
    if size is None or size == own:
        return x
    if size < own:
        return Complex(narrow(x.real, dim, 0, size), narrow(x.imag, dim, 0, size))
    sides = [0, 0] * (x.ndim - 1 - dim) + [0, size - own]
    return Complex(lower_pad(x.real, sides), lower_pad(x.imag, sides))


def _along(x: Tensor, dim: int, matrix: Tensor) -> Tensor:
    """The product with a matrix along one dimension."""
    last = x.ndim - 1
    return lower_transpose(
        lower_matmul(lower_transpose(x, dim, last), constant(matrix.T.contiguous())), dim, last
    )


def _matrices(rows: int, count: int, factor: float, *, inverse: bool) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the transform, computed in double precision."""
    turns = torch.outer(torch.arange(rows), torch.arange(count)).remainder(count).double()
    angles = turns * (2 * math.pi / count * (1 if inverse else -1))
    return (angles.cos() * factor).float(), (angles.sin() * factor).float()


def _transform(
    x: Any, dim: int, size: int | None, norm: str | None, *, inverse: bool, rows: int | None = None
) -> Complex:
    """The transform along one dimension; ``rows`` is how many of its numbers are wanted."""
    is_real = not isinstance(x, Complex)
    x = Complex(x, x) if is_real else x
    dim = axis_of(x.real, dim)
    x = _sized(x, dim, size)
    count = x.shape[dim]
    factor = _scale(norm, count, inverse=inverse)
    cosine, sine = _matrices(rows or count, count, factor, inverse=inverse)
    if is_real:
        return Complex(_along(x.real, dim, cosine), _along(x.real, dim, sine))
    return Complex(
        lower_sub(_along(x.real, dim, cosine), _along(x.imag, dim, sine)),
        lower_add(_along(x.real, dim, sine), _along(x.imag, dim, cosine)),
    )


@lowers("fft_fft")
@_on("fft_fft")
def lower_fft(x: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Complex:
    return _transform(x, dim, n, norm, inverse=False)


@lowers("fft_ifft")
@_on("fft_ifft")
def lower_ifft(x: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Complex:
    return _transform(x, dim, n, norm, inverse=True)


@lowers("fft_rfft")
def lower_rfft(x: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Complex:
    count = n or sizes_of(x)[dim]
    return _transform(x, dim, n, norm, inverse=False, rows=count // 2 + 1)


@lowers("fft_irfft")
@_on("fft_irfft")
def lower_irfft(x: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    x = as_complex(x)
    dim = axis_of(x.real, dim)
    count = n or 2 * (x.shape[dim] - 1)
    half = count // 2 + 1
    x = _sized(x, dim, half)
    cosine, sine = _matrices(half, count, _scale(norm, count, inverse=True), inverse=True)
    # The other half of the numbers are the conjugates of these.
    weights = torch.full((half, 1), 2.0)
    weights[0] = 1.0
    if count % 2 == 0:
        weights[-1] = 1.0
    return lower_sub(
        _along(x.real, dim, (cosine * weights).T), _along(x.imag, dim, (sine * weights).T)
    )


def _dims(x: Any, sizes: Sequence[int] | None, dims: Sequence[int] | None) -> list[int]:
    if dims is not None:
        return list(dims)
    return list(range(-len(sizes), 0)) if sizes else list(range(len(x.shape)))


def _over(
    one: Callable[..., Complex],
    x: Any,
    sizes: Sequence[int] | None,
    dims: Sequence[int] | None,
    norm: str | None,
) -> Complex:
    """One dimension after the other."""
    for place, axis in enumerate(_dims(x, sizes, dims)):
        x = one(x, sizes[place] if sizes else None, axis, norm)
    return as_complex(x)


@lowers("fft_fftn", "fft_fft2")
@_on("fft_fftn", "fft_fft2")
def lower_fftn(
    x: Any,
    s: Sequence[int] | None = None,
    dim: Sequence[int] | None = None,
    norm: str | None = None,
) -> Complex:
    return _over(lower_fft, x, s, dim, norm)


@lowers("fft_ifftn", "fft_ifft2")
@_on("fft_ifftn", "fft_ifft2")
def lower_ifftn(
    x: Any,
    s: Sequence[int] | None = None,
    dim: Sequence[int] | None = None,
    norm: str | None = None,
) -> Complex:
    return _over(lower_ifft, x, s, dim, norm)


@lowers("fft_rfftn", "fft_rfft2")
def lower_rfftn(
    x: Tensor,
    s: Sequence[int] | None = None,
    dim: Sequence[int] | None = None,
    norm: str | None = None,
) -> Complex:
    *others, last = _dims(x, s, dim)
    found = lower_rfft(x, s[-1] if s else None, last, norm)
    return lower_fftn(found, s[:-1] if s else None, others, norm)


@lowers("fft_irfftn", "fft_irfft2")
@_on("fft_irfftn", "fft_irfft2")
def lower_irfftn(
    x: Any,
    s: Sequence[int] | None = None,
    dim: Sequence[int] | None = None,
    norm: str | None = None,
) -> Tensor:
    *others, last = _dims(x, s, dim)
    found = lower_ifftn(x, s[:-1] if s else None, others, norm)
    return lower_irfft(found, s[-1] if s else None, last, norm)
