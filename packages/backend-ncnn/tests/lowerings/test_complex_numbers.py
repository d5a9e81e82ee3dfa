"""Complex numbers as their parts."""

from __future__ import annotations

import pytest
import torch

from enginebay.errors import LackingOperatorsError


def low_frequencies(x):
    spectrum = torch.fft.rfft(x)
    kept = torch.zeros_like(spectrum)
    kept[..., :2] = spectrum[..., :2]
    kept[:, 0] = 1.0
    return torch.fft.irfft(kept)


FUNCTIONS = {
    "fft, real part": lambda x: torch.fft.fft(x).real,
    "fft2 and back": lambda x: torch.fft.ifft2(torch.fft.fft2(x)).real,
    "fftn of two dimensions": lambda x: torch.fft.fftn(x, dim=(1, 2)).imag,
    "rfft, magnitude": lambda x: torch.fft.rfft(x, norm="ortho").abs(),
    "rfft, cut": lambda x: torch.fft.rfft(x, n=4, dim=1).abs(),
    "rfft, filled up": lambda x: torch.fft.rfft(x, n=12).abs(),
    "rfft and irfft, odd": lambda x: torch.fft.irfft(torch.fft.rfft(x, dim=1), n=5, dim=1),
    "a filter": lambda x: torch.fft.irfft2(torch.fft.rfft2(x) * (0.5 + 2j), s=(5, 6)),
    "correlation": lambda x: torch.fft.irfft(torch.fft.rfft(x) * torch.conj(torch.fft.rfft(x))),
    "windows of a signal": lambda x: torch.stft(
        x[0], 4, 2, window=torch.ones(4), return_complex=True
    ).abs(),
    "product of spectra": lambda x: (
        (
            torch.einsum("bij,bkj->bik", torch.fft.fft(x), x + 2j) @ torch.fft.fft(x, norm="ortho")
        ).real
    ),
    "low frequencies alone": low_frequencies,
    "quotient": lambda x: (torch.fft.fft(x) / (torch.fft.fft(x) + 9)).imag,
    "a number by it": lambda x: (1 / (torch.fft.fft(x) + 9)).real,
    "joined": lambda x: torch.cat([torch.fft.fft(x), x + 1j], 1).sum(1).abs(),
    "chosen": lambda x: torch.where(x > 0, torch.fft.fft(x), x).imag,
    "turned by an angle": lambda x: torch.exp(1j * x).imag + torch.polar(x.abs(), x).real,
    "angle and logarithm": lambda x: (x + 2j).angle() + torch.log(x + 2j).real,
    "as pairs": lambda x: torch.view_as_real(torch.fft.rfft(x) + 1),
    "of pairs": lambda x: torch.view_as_real(
        torch.view_as_complex(x.reshape(2, 5, 3, 2)) * torch.polar(torch.ones(3), torch.arange(3.0))
    ).flatten(2),
    "moved": lambda x: torch.fft.fftshift(torch.fft.fft(x)).transpose(1, 2)[:, 1:].flip(1).imag,
    "split": lambda x: torch.fft.fft(x).chunk(2, -1)[1].abs(),
}


def test_the_parts_have_the_numbers(lowered):
    def every(x):
        return {name: function(x) for name, function in FUNCTIONS.items()}

    x = torch.randn(2, 5, 6)
    program = lowered(every, [x])
    values = (node.meta.get("val") for node in program.graph.nodes if node.users)
    assert not any(isinstance(each, torch.Tensor) and each.is_complex() for each in values)
    found = program.module()(x)
    for name, wanted in every(x).items():
        torch.testing.assert_close(
            found[name], wanted, rtol=1e-3, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_a_part_that_nobody_reads_is_not_computed(lowered):
    program = lowered(FUNCTIONS["fft, real part"], [torch.randn(2, 5, 6)])
    names = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert names.count("aten.matmul.default") == 1
    assert "aten.stack.default" not in names


def test_what_complex_numbers_cannot_do_is_refused(lowered):
    with pytest.raises(LackingOperatorsError, match=r"aten\.tan"):
        lowered(lambda x: torch.fft.fft(x).tan().real, [torch.randn(2, 4)])
