"""Fourier transforms as matrix products, since TensorRT's parser has no ``DFT``.

The matrix of an axis is computed in the graph from the axis's size, which may be open; where it is
fixed, the builder folds it to a constant.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


def transform(
    signal: Tensor, dims: Sequence[int], norm: str | None, *, inverse: bool, onesided: bool
) -> Tensor:
    """Return the transform along some dimensions, as complex numbers.

    Args:
        signal: Real or complex numbers.
        dims: The dimensions.
        norm: As for ``torch.fft.fft``.
        inverse: True for the inverse transform.
        onesided: True for the first half of the frequencies alone.
    """
    import torch

    # Real and imaginary numbers apart: ONNX has no complex ones to multiply.
    parts: tuple[Tensor, ...] = (signal.real, signal.imag) if signal.is_complex() else (signal,)
    last = signal.dim() - 1
    for dim in (each % signal.dim() for each in dims):
        cosines, sines = _matrices(parts[0], dim, norm, inverse=inverse, onesided=onesided)
        along = [part.transpose(dim, last) for part in parts]
        real, imaginary = along[0] @ cosines, along[0] @ sines
        if len(along) > 1:
            real, imaginary = real - along[1] @ sines, imaginary + along[1] @ cosines
        parts = (real.transpose(dim, last), imaginary.transpose(dim, last))
    return torch.complex(*parts)


def _matrices(
    like: Tensor, dim: int, norm: str | None, *, inverse: bool, onesided: bool
) -> tuple[Tensor, Tensor]:
    """Return the real and the imaginary numbers of an axis's matrix, scaled as ``norm`` says."""
    import torch

    length: Any = like.shape[dim]  # in a trace no int
    rows = torch.arange(length, device=like.device)
    columns = rows[: length // 2 + 1] if onesided else rows
    # As a tensor, since the default exporter takes no open number as a modulus.
    size = rows[-1:] + 1
    # Whole turns are removed while the numbers are exact.
    turns = (rows[:, None] * columns % size).to(like.dtype) / size
    angles = turns * (math.tau if inverse else -math.tau)
    scale = _scale(size.to(like.dtype), norm, inverse=inverse)
    return angles.cos() * scale, angles.sin() * scale


def _scale(size: Tensor, norm: str | None, *, inverse: bool) -> Any:
    if norm == "ortho":
        return size**-0.5
    return 1 / size if inverse == (norm != "forward") else 1
