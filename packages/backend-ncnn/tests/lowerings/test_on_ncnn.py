"""The lowerings on the engine: several operators of a family in one network."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import enginebay as eb


class Family(nn.Module):
    """Functions after a linear layer, as in a model, and all of their outputs."""

    def __init__(self, functions: Any) -> None:
        super().__init__()
        self.functions = functions
        self.before = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = self.before(x)
        return tuple(function(x) * 2.0 for function in self.functions)


def spectrum(x):
    return torch.fft.irfft2(torch.fft.rfft2(x) * (0.5 + 2j), s=(16, 8))


def picture(x):
    return x.reshape(1, 2, 8, 8)


FAMILIES = {
    "arithmetic": [
        *(torch.exp2, torch.erfc, lambda x: x.abs().log2(), lambda x: x.hypot(x + 1)),
        *(lambda x: torch.logaddexp(x, -x), lambda x: x.lerp(-x, 0.3), lambda x: x.copysign(-x)),
        lambda x: torch.std_mean(x, -1)[0],
    ],
    "ordering": [
        *(lambda x: x.sort(1).values, lambda x: x.argsort(-1).float(), lambda x: x.topk(3, 1)[1]),
        *(lambda x: x.kthvalue(4, 1).values, lambda x: x.median(-1).values, lambda x: x.argmax(1)),
        *(lambda x: x.min(2).indices, lambda x: x.cummax(1).values, lambda x: x.cummin(2).indices),
    ],
    "contraction": [
        lambda x: torch.einsum("bij,bkj->bik", x, x),
        lambda x: torch.einsum("bij,bij->bi", x, x),
        *(lambda x: torch.cdist(x, x[:, :5] + 1), lambda x: torch.cdist(x, x[:, 1:4], p=1)),
        lambda x: functional.affine_grid(x[:, :2, :3], (1, 2, 4, 5), align_corners=False),
    ],
    "many dimensions": [
        lambda x: x.reshape(1, 2, 2, 4, 8),
        lambda x: x.reshape(1, 2, 2, 4, 2, 4).permute(0, 5, 1, 4, 2, 3),
        lambda x: x.reshape(2, 2, 1, 2, 2, 8).softmax(1),
        lambda x: x.reshape(2, 2, 2, 2, 2, 4).argmax(-1),
    ],
    "images": [
        lambda x: functional.interpolate(picture(x), (5, 3), mode="bilinear", antialias=True),
        lambda x: functional.interpolate(picture(x), (5, 9), mode="bicubic", antialias=True),
        lambda x: functional.pad(picture(x), (1, 2, 3, 0), mode="circular"),
    ],
    "complex numbers": [
        *(lambda x: torch.fft.rfft(x).abs(), spectrum, lambda x: torch.exp(1j * x).imag),
        lambda x: torch.view_as_real(torch.view_as_complex(x.reshape(1, 16, 4, 2)) * (1 + 2j)),
    ],
}


TORCHSCRIPT = {"ir": "torchscript"}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.one_in(2)
def test_families_of_operators_are_verified(deploy, family):
    deployed = deploy(Family(FAMILIES[family]), torch.randn(1, 16, 8), export=TORCHSCRIPT)
    assert deployed.verdict == "verified"


def test_a_recurrent_network_is_verified(deploy):
    lstm = nn.LSTM(8, 4, bidirectional=True, batch_first=True)
    assert deploy(lstm, torch.randn(1, 5, 8), export=TORCHSCRIPT).verdict == "verified"


@pytest.mark.parametrize("function", [lambda x: x, lambda x: x.sort(-1).values])
def test_a_callers_lowering_is_used(deploy, function):
    """Where pnnx takes the model as it is, too."""
    rewriters = eb.RewriterSet()

    @rewriters.lowering("aten.logsumexp")
    def logsumexp(ctx: Any, x: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
        return x.double().exp().sum(dim, keepdim).log().to(x.dtype)

    class Net(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return function(x).logsumexp(-1)

    deployed = deploy(Net(), torch.randn(3, 5), export={**TORCHSCRIPT, "rewriters": [rewriters]})
    assert deployed.rewriting.fired["aten.logsumexp"] == 1
    assert "aten.logsumexp" not in deployed.rewriting.never_fired
