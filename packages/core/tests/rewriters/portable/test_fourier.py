"""Fourier transforms on an engine without operators for them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import strategies as st
from packages.core.tests.rewriters.portable.engine import (
    FLOATS,
    SMALL_ENGINE,
    check,
    examples,
    tensors,
)

WITH_ATAN2 = SMALL_ENGINE - {"aten.complex"} | {"aten.atan2"}


def parts(x):
    return torch.view_as_real(x)


@pytest.mark.slow
@examples(exact=False)
def test_fourier_transforms_match_torch(draw):
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


@pytest.mark.one_in(2)
@pytest.mark.parametrize("count", [4, 6, 7])
def test_angle_of_a_negative_real_spectrum_matches_torch(count):
    x = -torch.arange(1.0, count + 1).expand(3, count).clone()
    check((lambda x: torch.fft.rfft(x).angle(), x), exact=False, operators=WITH_ATAN2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:A window was not provided")
@examples(exact=False)
def test_stft_and_istft_match_torch(draw):
    size = draw(st.sampled_from([8, 12, 16]))  # torch cannot capture istft of odd sizes
    hop = draw(st.integers(2, size // 2))
    shape = draw(st.sampled_from([(80,), (1, 80), (3, 80)]))
    length = draw(st.sampled_from([None, size]))
    options = {
        "hop_length": hop,
        "win_length": length and size - 3,
        "window": None if length is None else torch.hamming_window(size - 3),
        "center": draw(st.booleans()) or length is not None,  # the edges of a window may be 0
        "normalized": draw(st.booleans()),
        "onesided": draw(st.booleans()),
    }
    count = draw(st.sampled_from([None, 70]))

    def round_trip(x):
        spectrum = torch.stft(x, size, **options, return_complex=True)
        return torch.view_as_real(spectrum), torch.istft(spectrum, size, **options, length=count)

    return round_trip, torch.randn(shape)


@pytest.mark.filterwarnings("ignore:The length of signal is shorter")
def test_istft_pads_a_signal_that_is_too_short():
    window = torch.hamming_window(16)
    check(
        (
            lambda x: torch.istft(
                torch.complex(x, x / 2), 16, 4, window=window, center=False, length=70
            ),
            torch.randn(2, 9, 11),
        ),
        exact=False,
    )
