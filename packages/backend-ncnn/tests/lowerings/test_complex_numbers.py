"""Complex numbers as their parts."""

from __future__ import annotations

import torch

#: Those with Fourier transforms alone are in ``test_lowering_operators.py``, as networks.
FUNCTIONS = {
    "fft, real part": lambda x: torch.fft.fft(x).real,
    "quotient": lambda x: (torch.fft.fft(x) / (torch.fft.fft(x) + 9)).imag,
    "a number by it": lambda x: (1 / (torch.fft.fft(x) + 9)).real,
    "joined": lambda x: torch.cat([torch.fft.fft(x), x + 1j], 1).sum(1).abs(),
    "chosen": lambda x: torch.where(x > 0, torch.fft.fft(x), x).imag,
    "turned by an angle": lambda x: torch.exp(1j * x).imag + torch.polar(x.abs(), x).real,
    "angle and logarithm": lambda x: (x + 2j).angle() + torch.log(x + 2j).real,
    "moved": lambda x: torch.fft.fftshift(torch.fft.fft(x)).transpose(1, 2)[:, 1:].flip(1).imag,
    "split": lambda x: torch.fft.fft(x).chunk(2, -1)[1].abs(),
}


def test_the_parts_of_complex_numbers_match_torch(lowered):
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


def test_an_unused_part_of_complex_numbers_is_not_computed(lowered):
    program = lowered(FUNCTIONS["fft, real part"], [torch.randn(2, 5, 6)])
    names = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert names.count("aten.matmul.default") == 1
    assert "aten.stack.default" not in names
