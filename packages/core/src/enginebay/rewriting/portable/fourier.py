"""Fourier transforms of known length, as products with the matrix of the transform."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from enginebay.rewriting.portable.common import lowers, torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from enginebay.rewriting.lowering import LoweringContext


def _scale(count: int, normalization: int) -> float:
    """Torch's numbers: no scale, by the root of the count, by the count."""
    return (1.0, count**-0.5, 1 / count)[normalization] if count else 1.0


def _waves(rows: int, columns: int, count: int, sign: int) -> tuple[Any, Any]:
    """Cosines and sines, in double precision; whole turns are taken off first, exactly.

    The sine of a half turn is zero: a trace of it would turn the angle of a real number about.
    """
    turns = (torch.arange(rows).unsqueeze(-1) * torch.arange(columns)) % count
    angles = turns.to(torch.float64) * (sign * 2 * math.pi / count)
    return angles.cos(), torch.where(turns * 2 % count == 0, 0.0, angles.sin())


def _times(x: Tensor, dim: int, matrix: Tensor) -> Tensor:
    """The product with a matrix along one dimension."""
    return (x.movedim(dim, -1) @ matrix.to(x.dtype)).movedim(-1, dim)


def _between(real: Tensor, imag: Tensor, dim: int, sign: int) -> tuple[Tensor, Tensor]:
    count = real.shape[dim]
    cosine, sine = _waves(count, count, count, sign)
    return (
        _times(real, dim, cosine) - _times(imag, dim, sine),
        _times(real, dim, sine) + _times(imag, dim, cosine),
    )


@lowers("_fft_r2c", open_sizes=True)
def from_real(
    ctx: LoweringContext, x: Tensor, dim: Sequence[int], normalization: int, onesided: bool
) -> Tensor:
    *others, last = dim
    count = x.shape[last]
    cosine, sine = _waves(count, count // 2 + 1 if onesided else count, count, -1)
    scale = _scale(math.prod(x.shape[each] for each in dim), normalization)
    real, imag = _times(x, last, cosine * scale), _times(x, last, sine * scale)
    for axis in others:
        real, imag = _between(real, imag, axis, -1)
    return torch.complex(real, imag)


@lowers("_fft_c2c", open_sizes=True)
def between_complex(
    ctx: LoweringContext, x: Tensor, dim: Sequence[int], normalization: int, forward: bool
) -> Tensor:
    factor = _scale(math.prod(x.shape[each] for each in dim), normalization)
    real, imag = (x.real, x.imag) if factor == 1 else (x.real * factor, x.imag * factor)
    for axis in dim:
        real, imag = _between(real, imag, axis, -1 if forward else 1)
    return torch.complex(real, imag)


@lowers("_fft_c2r", open_sizes=True)
def to_real(
    ctx: LoweringContext, x: Tensor, dim: Sequence[int], normalization: int, last_dim_size: int
) -> Tensor:
    *others, last = dim
    count, half = last_dim_size, last_dim_size // 2 + 1
    real, imag = x.real, x.imag
    for axis in others:
        real, imag = _between(real, imag, axis, 1)
    cosine, sine = _waves(half, count, count, 1)
    # The numbers that are left out are the conjugates of those that have no weight of one.
    places = torch.arange(half).unsqueeze(-1)
    weight = torch.where((places == 0) | (places * 2 == count), 1.0, 2.0)
    weight = weight * _scale(count * math.prod(x.shape[each] for each in others), normalization)
    real, imag = real.narrow(last, 0, half), imag.narrow(last, 0, half)
    return _times(real, last, cosine * weight) - _times(imag, last, sine * weight)
