"""Lowerings of arithmetic, rounding and special functions, and of ``repeat`` and ``full_like``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from enginebay_rewriters.portable.common import lowerings, lowers, torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from enginebay.authors import LoweringContext


@lowers("remainder.Tensor", "remainder.Scalar", open_sizes=True)
def remainder(ctx: LoweringContext, x: Tensor, other: Tensor | float) -> Tensor:
    """Compute x − ⌊x / other⌋·other, for finite numbers."""
    return x - torch.div(x, other, rounding_mode="floor") * other


@lowers("fmod.Tensor", "fmod.Scalar", open_sizes=True)
def fmod(ctx: LoweringContext, x: Tensor, other: Tensor | float) -> Tensor:
    """Compute x − trunc(x / other)·other, for finite numbers."""
    return x - torch.div(x, other, rounding_mode="trunc") * other


@lowers("round.default", open_sizes=True)
def round_(ctx: LoweringContext, x: Tensor) -> Tensor:
    if not x.dtype.is_floating_point:
        return x.clone()
    # Halves are rounded to even, as by torch.
    low = x.floor()
    above, is_odd = x - low, low != (low / 2).floor() * 2
    return torch.where((above > 0.5) | ((above == 0.5) & is_odd), low + 1, low)


@lowers("isnan", open_sizes=True)
def isnan(ctx: LoweringContext, x: Tensor) -> Tensor:
    return x != x


@lowers("sign", "sgn", open_sizes=True)
def sign(ctx: LoweringContext, x: Tensor) -> Tensor:
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype) if x.dtype is not torch.bool else x.clone()


@lowers("trunc", open_sizes=True)
def trunc(ctx: LoweringContext, x: Tensor) -> Tensor:
    return torch.where(x < 0, -(-x).floor(), x.floor()) if x.dtype.is_floating_point else x.clone()


@lowers("ceil", open_sizes=True)
def ceil(ctx: LoweringContext, x: Tensor) -> Tensor:
    return -(-x).floor() if x.dtype.is_floating_point else x.clone()


@lowers("reciprocal", open_sizes=True)
def reciprocal(ctx: LoweringContext, x: Tensor) -> Tensor:
    return torch.ones((), dtype=x.dtype if x.dtype.is_floating_point else None) / x


@lowers("atan2", open_sizes=True)
def atan2(ctx: LoweringContext, y: Tensor, x: Tensor) -> Tensor:
    """Compute the angle of (|x|, |y|), and apply the signs of x and y."""
    dtype = torch.result_type(y, x)
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    y, x = y.to(dtype), x.to(dtype)
    angle = torch.atan(y.abs() / x.abs())
    # Two quotients, 0/0 and ∞/∞, are NaN although the angle is defined.
    angle = torch.where((y == 0) & (x == 0), 0.0, angle)
    angle = torch.where((y.abs() == torch.inf) & (x.abs() == torch.inf), math.pi / 4, angle)
    angle = torch.where(_has_sign_bit(x), math.pi - angle, angle)
    return torch.where(_has_sign_bit(y), -angle, angle)


def _has_sign_bit(x: Tensor) -> Tensor:
    # Few engines have signbit, but in all of them 1/−0 is −∞.
    return (x < 0) | ((x == 0) & (x.reciprocal() < 0))


@lowers("copysign", open_sizes=True)
def copysign(ctx: LoweringContext, x: Tensor, other: Tensor | float) -> Tensor:
    dtype = torch.result_type(x, other)
    length = x.to(dtype if dtype.is_floating_point else torch.get_default_dtype()).abs()
    if not isinstance(other, torch.Tensor):
        return -length if math.copysign(1, other) < 0 else length
    other = other if other.dtype.is_floating_point else other.to(length.dtype)
    return torch.where(_has_sign_bit(other), -length, length)


@lowers("hypot", open_sizes=True)
def hypot(ctx: LoweringContext, x: Tensor, y: Tensor) -> Tensor:
    """Compute max·√(1 + (min / max)²) of |x| and |y|, which does not overflow."""
    top, low = torch.maximum(x.abs(), y.abs()), torch.minimum(x.abs(), y.abs())
    ratio = low / torch.where(top > 0, top, 1)  # 0/0 would be NaN
    # ∞/∞ would be NaN too.
    return torch.where(top == torch.inf, top, top * (1 + ratio * ratio).sqrt())


#: Lanczos' approximation of the gamma function for g = 7 and n = 9 (Lanczos, "A precision
#: approximation of the gamma function", SIAM J. Numer. Anal. 1, 1964), with Godfrey's coefficients.
_LANCZOS = (
    *(0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313),
    *(-176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6),
    1.5056327351493116e-7,
)


@lowers("lgamma", open_sizes=True)
def lgamma(ctx: LoweringContext, x: Tensor) -> Tensor:
    """Use Lanczos' approximation, and for x < 0.5 the reflection formula; ``x`` must be finite."""
    x = x if x.dtype.is_floating_point else x.to(torch.get_default_dtype())
    below = x < 0.5
    z = torch.where(below, -x, x - 1)
    first, *others = _LANCZOS
    series: Any = first + sum(each / (z + position) for position, each in enumerate(others, 1))
    top = z + 7.5
    result = (z + 0.5) * top.log() - top + (math.sqrt(2 * math.pi) * series).log()
    # sin(πx) of the fraction of x: the product of π and a large x is rounded too much.
    sine = ((x - x.floor()) * math.pi).sin().abs()
    # Γ(x)·Γ(1 − x) = π / sin(πx): Abramowitz and Stegun, 6.1.17.
    reflected = math.log(math.pi) - sine.log() - result
    poles = (x <= 0) & (x == x.floor())  # 0, −1, −2, …
    return torch.where(poles, torch.inf, torch.where(below, reflected, result))


#: Coefficients of t⁹, t⁸, …: the Chebyshev fit of erfc in Press et al., "Numerical Recipes",
#: section 6.2, with a relative error of 1.2e-7.
_ERFC = (
    *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807),
    *(-0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223),
)


@lowerings.lowering("aten.erfc", ir="onnx")
@lowers("erfc", open_sizes=True)
def erfc(ctx: LoweringContext, x: Tensor) -> Tensor:
    # The default exporter writes 1 − erf(x), which in float32 is 0 for x above 4.
    x = x if x.dtype.is_floating_point else x.to(torch.get_default_dtype())
    z = x.abs()
    t = (1 + z / 2).reciprocal()
    tail = t * (_evaluate_polynomial(_ERFC, t) - z * z).exp()
    return torch.where(z < 1, 1 - x.erf(), torch.where(x < 0, 2 - tail, tail))


#: Coefficients of the asymptotic series of digamma, in powers of 1/x², the highest first:
#: Abramowitz and Stegun, 6.3.18.
_DIGAMMA = (691 / 32760, -1 / 132, 1 / 240, -1 / 252, 1 / 120, -1 / 12, 0.0)

#: The argument from which the series with these terms has its full accuracy.
_SERIES_START = 6


@lowers("digamma", "special_digamma", open_sizes=True)
def digamma(ctx: LoweringContext, x: Tensor) -> Tensor:
    """Use the asymptotic series, after the reflection and recurrence formulas have made x large."""
    x = x if x.dtype.is_floating_point else x.to(torch.get_default_dtype())
    below = x < 0
    z = torch.where(below, 1 - x, x)
    # ψ(z) = ψ(z + n) − Σ 1/(z + k), k < n: the recurrence in Abramowitz and Stegun, 6.3.5.
    steps: Any = z.reciprocal() + sum((z + step).reciprocal() for step in range(1, _SERIES_START))
    far = z + _SERIES_START
    series = _evaluate_polynomial(_DIGAMMA, far.reciprocal().square())
    result = far.log() - far.reciprocal() / 2 + series - steps
    angle = (x - x.ceil()) * math.pi
    tangent = torch.where(below, angle.sin() / angle.cos(), 1.0)
    # 1/tan, written so that it is NaN at the poles, as in torch.
    reflected = result - math.pi * tangent / tangent.square()
    return torch.where(below, reflected, result)


#: Coefficients for the central region and for the tails, the highest power first: Giles,
#: "Approximating the erfinv function", GPU Computing Gems 2, 2012.
_ERFINV = (
    (
        *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
        *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
    ),
    (
        *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
        *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
    ),
)


def _evaluate_polynomial(coefficients: Sequence[float], x: Tensor) -> Tensor:
    """Evaluate a polynomial by Horner's scheme; the first coefficient is of the highest power."""
    value = coefficients[0] * x + coefficients[1]
    for coefficient in coefficients[2:]:
        value = value * x + coefficient
    return value


@lowers("erfinv", open_sizes=True)
def erfinv(ctx: LoweringContext, x: Tensor) -> Tensor:
    """Use Giles' polynomials, exact in float32; for float64, add two steps of Newton's method."""
    x = x if x.dtype.is_floating_point else x.to(torch.get_default_dtype())
    w = -((1 - x) * (1 + x)).log()
    central, tail = (
        _evaluate_polynomial(_ERFINV[0], w - 2.5),
        _evaluate_polynomial(_ERFINV[1], w.sqrt() - 3),
    )
    result: Tensor = torch.where(w < 5, central, tail) * x
    for _ in range(2 if x.dtype is torch.float64 else 0):
        result = result - (result.erf() - x) * (result * result).exp() * (math.sqrt(math.pi) / 2)
    # At ±1 the polynomial is infinite, but with the wrong sign.
    return torch.where(x.abs() == 1, x * torch.inf, result)


@lowers("log1p", open_sizes=True)
def log1p(ctx: LoweringContext, x: Tensor) -> Tensor:
    x = x if x.dtype.is_floating_point else x.to(torch.get_default_dtype())
    # Near zero 1 + x loses digits of x; the quotient corrects this error: Goldberg, "What every
    # computer scientist should know about floating-point arithmetic", 1991, theorem 4.
    above = x + 1
    return torch.where((above == 1) | (above == torch.inf), x, above.log() * (x / (above - 1)))


@lowers("split_with_sizes", "split_with_sizes_copy")
def split_with_sizes(
    ctx: LoweringContext, x: Tensor, split_sizes: Sequence[int], dim: int = 0
) -> list[Tensor]:
    starts = [sum(split_sizes[:position]) for position in range(len(split_sizes))]
    return [x.narrow(dim, start, size) for start, size in zip(starts, split_sizes, strict=True)]


@lowers("repeat")
def repeat(ctx: LoweringContext, x: Tensor, repeats: Sequence[int]) -> Tensor:
    sizes = [1] * (len(repeats) - x.ndim) + list(x.shape)
    pairs = list(zip(repeats, sizes, strict=True))
    # A new dimension before each one is expanded by the number of repetitions.
    separated = x.reshape([n for size in sizes for n in (1, size)])
    result: Tensor = separated.expand([size for pair in pairs for size in pair])
    return result.reshape([times * size for times, size in pairs])


@lowers("full_like", open_sizes=True)
def full_like(
    ctx: LoweringContext,
    x: Tensor,
    value: complex,
    *,
    dtype: torch.dtype | None = None,
    **_: object,
) -> Tensor:
    return torch.full(x.shape, value, dtype=dtype or x.dtype, device=x.device)


@lowers("alias", open_sizes=True)
def alias(ctx: LoweringContext, x: Tensor) -> Tensor:
    return x.view(x.shape)
