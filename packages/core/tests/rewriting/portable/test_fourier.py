"""Fourier transforms without such operators."""

from __future__ import annotations

import pytest
import torch
from hypothesis import strategies as st
from packages.core.tests.rewriting.portable.engine import (
    FLOATS,
    SMALL_ENGINE,
    check,
    examples,
    tensors,
)

WITH_ATAN2 = SMALL_ENGINE - {"aten.complex"} | {"aten.atan2"}


def parts(x):
    return torch.view_as_real(x)


@examples(exact=False)
def test_transforms(draw):
    x = draw(tensors(ranks=(2, 3), sizes=(1, 7), dtypes=FLOATS))
    dim = draw(st.integers(-x.ndim, x.ndim - 1))
    norm = draw(st.sampled_from([None, "ortho", "forward"]))
    count = draw(st.none() | st.integers(2, 8))

    def transforms(x):
        half = torch.fft.rfft(x, count, dim, norm)
        return (
            *(parts(half), torch.fft.irfft(half, count or x.shape[dim], dim, norm)),
            *(parts(torch.fft.fft2(x, norm=norm)), parts(torch.fft.ifft(half, None, dim, norm))),
            parts(torch.fft.rfft2(x, norm=norm)),
        )

    return transforms, x


@pytest.mark.parametrize("count", [4, 6, 7])
def test_the_angle_of_what_is_real(count):
    x = -torch.arange(1.0, count + 1).expand(3, count).clone()
    check((lambda x: torch.fft.rfft(x).angle(), x), exact=False, operators=WITH_ATAN2)


def test_signals():
    signal, window = torch.randn(2, 80), torch.hann_window(16)

    def through(x):
        spectrum = torch.stft(x, 16, 4, window=window, return_complex=True)
        return spectrum.abs(), torch.istft(spectrum, 16, 4, window=window, length=80)

    check((through, signal), exact=False)
