"""The inputs of the first run."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from enginebay_ncnn.shapes import InputShape
from enginebay_ncnn.trial_inputs import make_trial_inputs


class Padded(nn.Module):
    """Attends to keys within each sample's length; torch returns zeros for length 0."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        padding = torch.arange(9).expand(2, 9) >= lengths.unsqueeze(1)
        return self.attention(x, x, x, key_padding_mask=padding, need_weights=False)[0]


def test_random_integers_have_the_range_of_the_samples(deploy):
    deployed = deploy(
        Padded(), (torch.randn(9, 2, 16), torch.tensor([9, 6])), export={"ir": "torchscript"}
    )
    assert deployed.verdict == "verified"


@pytest.mark.parametrize(
    ("given", "wanted"), [([7, 5], {5, 6, 7}), ([1, 1], {0, 1}), ([0, 1], {0, 1}), (None, {0, 1})]
)
def test_integers_are_drawn_from_the_range_of_the_samples(given, wanted):
    shape = InputShape("n", "int64", (2,), (2,))
    samples = [] if given is None else [{"n": np.array(given)}]
    first, *_ = make_trial_inputs(samples, [shape])
    assert {*first["n"].tolist()} <= wanted
    assert first["n"].dtype == np.int64
