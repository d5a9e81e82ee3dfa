"""Lowerings of Fourier transforms of fixed length to products with the DFT matrix."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from enginebay_rewriters.portable.common import lowers, torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from enginebay.authors import LoweringContext


def _normalization_factor(count: int, normalization: int) -> float:
    """Return the factor of torch's normalization modes 0, 1 and 2: 1, 1/√count and 1/count."""
    return (1.0, count**-0.5, 1 / count)[normalization] if count else 1.0


def _dft_matrix(rows: int, columns: int, count: int, sign: int) -> tuple[Tensor, Tensor]:
    """Return the real and imaginary parts of exp(sign·2πi·row·column / count), in float64."""
    # Full turns are removed as integers, without a rounding error.
    turns = (torch.arange(rows).unsqueeze(-1) * torch.arange(columns)) % count
    angles = turns.to(torch.float64) * (sign * 2 * math.pi / count)
    # The sine of a half turn is exactly 0: a rounding error could flip the angle of a real number.
    return angles.cos(), torch.where(turns * 2 % count == 0, 0.0, angles.sin())


def _multiply_along(x: Tensor, dim: int, matrix: Tensor) -> Tensor:
    return (x.movedim(dim, -1) @ matrix.to(x.dtype)).movedim(-1, dim)


def _complex_dft(real: Tensor, imag: Tensor, dim: int, sign: int) -> tuple[Tensor, Tensor]:
    count = real.shape[dim]
    cosine, sine = _dft_matrix(count, count, count, sign)
    return (
        _multiply_along(real, dim, cosine) - _multiply_along(imag, dim, sine),
        _multiply_along(real, dim, sine) + _multiply_along(imag, dim, cosine),
    )


@lowers("_fft_r2c", open_sizes=True)
def from_real(
    ctx: LoweringContext, x: Tensor, dim: Sequence[int], normalization: int, onesided: bool
) -> Tensor:
    *others, last = dim
    count = x.shape[last]
    cosine, sine = _dft_matrix(count, count // 2 + 1 if onesided else count, count, -1)
    scale = _normalization_factor(math.prod(x.shape[each] for each in dim), normalization)
    real, imag = _multiply_along(x, last, cosine * scale), _multiply_along(x, last, sine * scale)
    # After the first transform the numbers are complex.
    for axis in others:
        real, imag = _complex_dft(real, imag, axis, -1)
    return torch.complex(real, imag)


@lowers("_fft_c2c", open_sizes=True)
def between_complex(
    ctx: LoweringContext, x: Tensor, dim: Sequence[int], normalization: int, forward: bool
) -> Tensor:
    factor = _normalization_factor(math.prod(x.shape[each] for each in dim), normalization)
    # A product with 1 would be a node of its own.
    real, imag = (x.real, x.imag) if factor == 1 else (x.real * factor, x.imag * factor)
    for axis in dim:
        real, imag = _complex_dft(real, imag, axis, -1 if forward else 1)
    return torch.complex(real, imag)


@lowers("_fft_c2r", open_sizes=True)
def to_real(
    ctx: LoweringContext, x: Tensor, dim: Sequence[int], normalization: int, last_dim_size: int
) -> Tensor:
    *others, last = dim
    count, half = last_dim_size, last_dim_size // 2 + 1
    real, imag = x.real, x.imag
    for axis in others:
        real, imag = _complex_dft(real, imag, axis, 1)
    cosine, sine = _dft_matrix(half, count, count, 1)
    # The omitted half is the conjugate of the given one, without its first and middle element.
    positions = torch.arange(half).unsqueeze(-1)
    weight = torch.where((positions == 0) | (positions * 2 == count), 1.0, 2.0)
    weight = weight * _normalization_factor(
        count * math.prod(x.shape[each] for each in others), normalization
    )
    real, imag = real.narrow(last, 0, half), imag.narrow(last, 0, half)
    return _multiply_along(real, last, cosine * weight) - _multiply_along(imag, last, sine * weight)


def _center_window(window: Tensor | None, win_length: int | None, n_fft: int, x: Tensor) -> Tensor:
    """Return a window (by default of ones), padded with zeros on both sides to length ``n_fft``."""
    length = n_fft if win_length is None else win_length
    if window is None:
        window = torch.ones(length, dtype=x.real.dtype, device=x.device)
    left = (n_fft - length) // 2
    return (
        torch.constant_pad_nd(window, [left, n_fft - length - left]) if length < n_fft else window
    )


# The TorchScript exporter has a symbolic for an older signature of stft only.
@lowers("stft.default", open_sizes=True)
def stft(
    ctx: LoweringContext,
    x: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    if (
        x.is_complex()
        or align_to_window is not None
        or (window is not None and window.is_complex())
    ):
        original: Tensor = ctx.origin_op(
            x,
            n_fft,
            hop_length,
            win_length,
            window,
            normalized,
            onesided,
            return_complex,
            align_to_window,
        )
        return original
    # For center=True, torch.stft pads the input before it calls the operator.
    frames = x.unfold(x.ndim - 1, n_fft, hop_length or n_fft // 4)
    frames = frames * _center_window(window, win_length, n_fft, x)
    spectrum = torch.ops.aten._fft_r2c.default(
        frames, [frames.ndim - 1], 1 if normalized else 0, onesided is not False
    ).transpose(-1, -2)
    return spectrum if return_complex else torch.view_as_real(spectrum)


# torch's own decomposition of a batch adds nodes for each value of the window: 59,810 for a window
# of 1024.
@lowers("istft", open_sizes=True)
def istft(
    ctx: LoweringContext,
    x: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    if return_complex or (window is not None and window.is_complex()):
        original: Tensor = ctx.origin_op(
            x,
            n_fft,
            hop_length,
            win_length,
            window,
            center,
            normalized,
            onesided,
            length,
            return_complex,
        )
        return original
    hop = hop_length or n_fft // 4
    shape = _center_window(window, win_length, n_fft, x)
    frames = torch.ops.aten._fft_c2r.default(
        x.transpose(-1, -2), [x.ndim - 1], 1 if normalized else 2, n_fft
    )
    signal = _overlap_add(frames * shape, hop)
    weight = _overlap_add((shape * shape).expand(frames.shape[-2:]), hop)
    edge = n_fft // 2 if center else 0
    count = signal.shape[-1]
    stop = count - edge if length is None else edge + length
    result = signal[..., edge:stop] / weight[edge:stop]
    missing = 0 if length is None else stop - count
    return torch.constant_pad_nd(result, [0, missing]) if missing > 0 else result


def _overlap_add(frames: Tensor, hop: int) -> Tensor:
    """Return the sum of frames ``[..., frames, size]`` that start ``hop`` elements apart."""
    *batch, count, size = frames.shape
    steps = -(-size // hop)
    parts = torch.constant_pad_nd(frames, [0, steps * hop - size])
    parts = parts.reshape([*batch, count, steps, hop])
    blocks = [
        torch.constant_pad_nd(parts.select(-2, step), [0, 0, step, steps - 1 - step])
        for step in range(steps)
    ]
    signal = torch.stack(blocks).sum(0).reshape([*batch, (count + steps - 1) * hop])
    return signal[..., : (count - 1) * hop + size]
