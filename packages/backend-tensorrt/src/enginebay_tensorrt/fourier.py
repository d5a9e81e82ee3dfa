"""Fourier transforms as matrix products, since TensorRT's parser has no ``DFT``.

The graph computes the matrix of an axis from the size of the axis, which may be dynamic. If the
size is fixed, the builder folds the matrix to a constant.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


def multiply_by_dft(
    signal: Tensor, dims: Sequence[int], norm: str | None, *, inverse: bool, onesided: bool
) -> Tensor:
    """Return the Fourier transform of a tensor along some of its dimensions, as a complex tensor.

    Args:
        signal: A tensor of real or complex numbers.
        dims: The dimensions to transform.
        norm: The normalisation, as in ``torch.fft.fft``.
        inverse: Whether to compute the inverse transform.
        onesided: Whether to compute only the first half of the frequencies.
    """
    import torch

    # Separate real and imaginary parts: ONNX cannot multiply complex numbers.
    parts: tuple[Tensor, ...] = (signal.real, signal.imag) if signal.is_complex() else (signal,)
    last = signal.dim() - 1
    for dim in (axis % signal.dim() for axis in dims):
        cosines, sines = _dft_matrices(parts[0], dim, norm, inverse=inverse, onesided=onesided)
        rows = [part.transpose(dim, last) for part in parts]
        real, imaginary = rows[0] @ cosines, rows[0] @ sines
        if len(rows) > 1:
            real, imaginary = real - rows[1] @ sines, imaginary + rows[1] @ cosines
        parts = (real.transpose(dim, last), imaginary.transpose(dim, last))
    return torch.complex(*parts)


def _dft_matrices(
    like: Tensor, dim: int, norm: str | None, *, inverse: bool, onesided: bool
) -> tuple[Tensor, Tensor]:
    import torch

    length: Any = like.shape[dim]  # not an int in a trace
    rows = torch.arange(length, device=like.device)
    columns = rows[: length // 2 + 1] if onesided else rows
    # A tensor, because the default exporter accepts no dynamic number as a modulus.
    size = rows[-1:] + 1
    # Reduce the angles modulo a full turn while the numbers are exact integers.
    turns = (rows[:, None] * columns % size).to(like.dtype) / size
    angles = turns * (math.tau if inverse else -math.tau)
    scale = _norm_scale(size.to(like.dtype), norm, inverse=inverse)
    return angles.cos() * scale, angles.sin() * scale


def _norm_scale(size: Tensor, norm: str | None, *, inverse: bool) -> Tensor | float:
    if norm == "ortho":
        return size**-0.5
    return 1 / size if inverse == (norm != "forward") else 1
