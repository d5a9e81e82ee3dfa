"""Large numbers overflow only where PyTorch's do; integers that ncnn would round are refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import enginebay as eb
from enginebay.errors import ConversionError


class Exponentials(nn.Module):
    def forward(self, x):
        return (
            torch.logsumexp(x, -1),
            torch.logsumexp(x.reshape(2, 2, 4), (0, 2), keepdim=True),
            F.log_softmax(x, 1),
            F.softplus(x),
            F.softplus(x, beta=2.0),
            F.logsigmoid(x),
            torch.logaddexp(x, x.flip(1)),
            torch.logaddexp2(x, x.flip(1)),
            F.binary_cross_entropy_with_logits(x, (x > 1).float(), reduction="none"),
        )


def test_exponentials_of_large_numbers_do_not_overflow(deploy) -> None:
    x = torch.linspace(-3, 3, 16).reshape(4, 4)
    deployed = deploy(Exponentials(), x, export={"ir": "torchscript"})
    with eb.load(deployed.artifact.path) as wrapper:
        for scale in (33, 333, -333, 0):
            found = wrapper({wrapper.input_names[0]: (x * scale).numpy()})
            for each, expected in zip(found.values(), Exponentials()(x * scale), strict=True):
                np.testing.assert_allclose(each, expected.numpy(), rtol=1e-4, atol=1e-6)


def test_a_softplus_with_a_low_threshold_is_unchanged(deploy) -> None:
    model = nn.Softplus(beta=2.0, threshold=1.0)
    assert deploy(model, torch.linspace(-2, 2, 8)[None]).verdict == "verified"


class Hash(nn.Module):
    def __init__(self, number) -> None:
        super().__init__()
        self.register_buffer("table", torch.tensor([number, 3, 5]))

    def forward(self, ids):
        return (ids + self.table) % 7


class Compared(nn.Module):
    def __init__(self, number) -> None:
        super().__init__()
        self.number = number

    def forward(self, ids):
        return ids.eq(self.number)


class Multiplied(Compared):
    def forward(self, ids):
        return ids * self.number


@pytest.mark.parametrize("ir", ["torchscript", "onnx"])
@pytest.mark.parametrize("kind", [Hash, Compared, Multiplied])
def test_a_large_integer_is_refused(deploy, kind, ir) -> None:
    with pytest.raises(ConversionError) as caught:
        deploy(kind(16777217), torch.tensor([0, 1, 2]), export={"ir": ir})
    assert str(caught.value) == (
        "the model contains the integer 16777217; ncnn computes in float32, which is exact only "
        "for integers up to 16777216"
    )
    assert caught.value.hint == "if the model computes with floats, write 16777217.0"


class LookUp(Hash):
    def forward(self, ids):
        return self.table[ids]


def test_an_integer_that_float32_represents_is_accepted(deploy) -> None:
    assert deploy(LookUp(2**30), torch.tensor([0, 1, 2])).verdict == "verified"


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_an_integer_that_float32_represents_is_accepted_in_onnx(deploy, exporter) -> None:
    given = torch.tensor([[0, 1, 2]])
    deployed = deploy(Multiplied(2**25), given, export={"ir": "onnx", "exporter": exporter})
    assert deployed.verdict == "verified"


class Sliced(nn.Module):
    def forward(self, x):
        return x[:, 1:16777217] * 2


def test_a_large_end_of_a_slice_is_accepted(deploy) -> None:
    assert deploy(Sliced(), torch.randn(1, 8), export={"ir": "onnx"}).verdict == "verified"
