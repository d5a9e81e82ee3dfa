"""Fourier transforms of known length, as products with the transform's matrix, and of signals."""

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


def _window(window: Tensor | None, win_length: int | None, n_fft: int, x: Tensor) -> Tensor:
    """The window in the middle of a transform's length; ones where there is none."""
    length = n_fft if win_length is None else win_length
    if window is None:
        window = torch.ones(length, dtype=x.real.dtype, device=x.device)
    left = (n_fft - length) // 2
    return (
        torch.constant_pad_nd(window, [left, n_fft - length - left]) if length < n_fft else window
    )


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
        own: Tensor = ctx.origin_op(
            *(x, n_fft, hop_length, win_length, window, normalized, onesided, return_complex),
            align_to_window,
        )
        return own
    frames = x.unfold(x.ndim - 1, n_fft, hop_length or n_fft // 4)
    frames = frames * _window(window, win_length, n_fft, x)
    spectrum = torch.ops.aten._fft_r2c.default(
        frames, [frames.ndim - 1], 1 if normalized else 0, onesided is not False
    ).transpose(-1, -2)
    return spectrum if return_complex else torch.view_as_real(spectrum)


# torch's own decomposition adds the windows of a batch in a loop over their values.
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
        own: Tensor = ctx.origin_op(
            *(x, n_fft, hop_length, win_length, window, center, normalized, onesided, length),
            return_complex,
        )
        return own
    hop = hop_length or n_fft // 4
    shape = _window(window, win_length, n_fft, x)
    frames = torch.ops.aten._fft_c2r.default(
        x.transpose(-1, -2), [x.ndim - 1], 1 if normalized else 2, n_fft
    )
    signal = _overlapped(frames * shape, hop)
    weight = _overlapped((shape * shape).expand(frames.shape[-2:]), hop)
    edge = n_fft // 2 if center else 0
    count = signal.shape[-1]
    stop = count - edge if length is None else edge + length
    found = signal[..., edge:stop] / weight[edge:stop]
    missing = 0 if length is None else stop - count
    return torch.constant_pad_nd(found, [0, missing]) if missing > 0 else found


def _overlapped(frames: Tensor, hop: int) -> Tensor:
    """The sum of windows that begin ``hop`` after one another: ``[..., frames, size]``."""
    *batch, count, size = frames.shape
    steps = -(-size // hop)
    parts = torch.constant_pad_nd(frames, [0, steps * hop - size])
    parts = parts.reshape([*batch, count, steps, hop])
    blocks = [
        torch.constant_pad_nd(parts.select(-2, step), [0, 0, step, steps - 1 - step])
        for step in range(steps)
    ]
    whole = torch.stack(blocks).sum(0).reshape([*batch, (count + steps - 1) * hop])
    return whole[..., : (count - 1) * hop + size]
