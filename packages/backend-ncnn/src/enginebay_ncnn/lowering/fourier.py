"""Fourier transforms of fixed size, as products with the matrix of the transform."""

# ruff: noqa: D103 - each lowering is documented by the operator whose name it carries
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from enginebay_ncnn.lowering.arithmetic import lower_add, lower_sub
from enginebay_ncnn.lowering.complex_numbers import Complex, as_complex, of_complex
from enginebay_ncnn.lowering.contraction import lower_matmul
from enginebay_ncnn.lowering.images import lower_pad
from enginebay_ncnn.lowering.layout import axis_of, lower_transpose, narrow
from enginebay_ncnn.lowering.registry import constant, lowers, sizes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor


def _scale(norm: str | None, count: int, *, inverse: bool) -> float:
    """Return the factor of a transform of ``count`` numbers."""
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
@of_complex("fft_fft")
def lower_fft(x: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Complex:
    return _transform(x, dim, n, norm, inverse=False)


@lowers("fft_ifft")
@of_complex("fft_ifft")
def lower_ifft(x: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Complex:
    return _transform(x, dim, n, norm, inverse=True)


@lowers("fft_rfft")
def lower_rfft(x: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Complex:
    count = n or sizes_of(x)[dim]
    return _transform(x, dim, n, norm, inverse=False, rows=count // 2 + 1)


@lowers("fft_irfft")
@of_complex("fft_irfft")
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
@of_complex("fft_fftn", "fft_fft2")
def lower_fftn(
    x: Any,
    s: Sequence[int] | None = None,
    dim: Sequence[int] | None = None,
    norm: str | None = None,
) -> Complex:
    return _over(lower_fft, x, s, dim, norm)


@lowers("fft_ifftn", "fft_ifft2")
@of_complex("fft_ifftn", "fft_ifft2")
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
@of_complex("fft_irfftn", "fft_irfft2")
def lower_irfftn(
    x: Any,
    s: Sequence[int] | None = None,
    dim: Sequence[int] | None = None,
    norm: str | None = None,
) -> Tensor:
    *others, last = _dims(x, s, dim)
    found = lower_ifftn(x, s[:-1] if s else None, others, norm)
    return lower_irfft(found, s[-1] if s else None, last, norm)


#: The scales of the functions that torch takes the others apart into, by their numbers: none, by
#: the root of the count, by the count.
_FORWARD = ("backward", "ortho", "forward")
_INVERSE = ("forward", "ortho", "backward")


@lowers("_fft_r2c")
def lower_from_real(x: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Complex:
    return (lower_rfftn if onesided else lower_fftn)(x, None, dim, _FORWARD[normalization])


@of_complex("_fft_c2c")
def lower_between(x: Complex, dim: Sequence[int], normalization: int, forward: bool) -> Complex:
    if forward:
        return lower_fftn(x, None, dim, _FORWARD[normalization])
    return lower_ifftn(x, None, dim, _INVERSE[normalization])


@of_complex("_fft_c2r")
def lower_to_real(x: Complex, dim: Sequence[int], normalization: int, last_dim_size: int) -> Tensor:
    *others, last = dim
    found = lower_ifftn(x, None, others, _INVERSE[normalization])
    return lower_irfft(found, last_dim_size, last, _INVERSE[normalization])
