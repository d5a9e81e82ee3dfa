"""Complex numbers: ncnn has none, so a :class:`Complex` is two tensors on the way."""

# ruff: noqa: D103 - each lowering is documented by the operator whose name it carries
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from enginebay_ncnn.lowering.arithmetic import lower_add, lower_div, lower_mul, lower_sub
from enginebay_ncnn.lowering.contraction import lower_einsum, lower_matmul
from enginebay_ncnn.lowering.layout import lower_cat, lower_select, lower_stack
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


def of_complex(*names: str) -> Callable[[_F], _F]:
    """Register what an operator does to complex numbers."""

    def declare(function: _F) -> _F:
        _COMPLEX.update(dict.fromkeys(names, function))
        return function

    return declare


def _is_tensor(x: Any) -> bool:
    return isinstance(x, torch.Tensor)


def is_complex(x: Any) -> bool:
    """Return True for a complex number or tensor."""
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


@of_complex("mul", "multiply")
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


@of_complex("matmul", "bmm", "mm")
def product(a: Any, b: Any) -> Complex:
    return _of_parts(lower_matmul, a, b)


@of_complex("einsum")
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


@of_complex("div", "true_divide")
def divide(a: Complex, b: Any) -> Complex:
    if isinstance(b, Complex):
        raise UnsupportedError("a quotient of complex numbers")
    return Complex(lower_div(a.real, b), lower_div(a.imag, b))


@of_complex("add")
def add(a: Any, b: Any, alpha: float = 1) -> Complex:
    a, b = as_complex(a), as_complex(b)
    return Complex(lower_add(a.real, b.real, alpha), lower_add(a.imag, b.imag, alpha))


@of_complex("sub")
def subtract(a: Any, b: Any, alpha: float = 1) -> Complex:
    a, b = as_complex(a), as_complex(b)
    return Complex(lower_sub(a.real, b.real, alpha), lower_sub(a.imag, b.imag, alpha))


@of_complex("real")
def real(x: Complex) -> Tensor:
    return x.real


@of_complex("imag")
def imag(x: Complex) -> Tensor:
    return x.imag


@of_complex("conj", "_conj", "conj_physical")
def conj(x: Complex) -> Complex:
    return Complex(x.real, -x.imag)


@of_complex("resolve_conj", "resolve_neg", "to", "_to_copy")
def same(x: Complex, *_: Any, **__: Any) -> Complex:
    return x


@of_complex("abs")
def magnitude(x: Complex) -> Tensor:
    return lower_add(lower_mul(x.real, x.real), lower_mul(x.imag, x.imag)).sqrt()


@of_complex("view_as_real")
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
