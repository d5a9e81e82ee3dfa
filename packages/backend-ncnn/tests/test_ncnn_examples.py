"""What a model is tried with, and the numbers in its graph."""

from __future__ import annotations

import pytest
import torch
from torch import nn


class Boxes(nn.Module):
    """Looks its table up with the widths of boxes, which are not negative."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(16, 8)

    def forward(self, box: torch.Tensor) -> torch.Tensor:
        return self.table(box[..., 2] - box[..., 0]) + self.table(box[..., 3] - box[..., 1])


def test_a_table_indexed_with_differences_is_verified(deploy):
    box = torch.tensor([[[0, 1, 5, 7], [2, 2, 3, 9]]])
    assert deploy(Boxes(), box, export={"ir": "torchscript"}).verdict == "verified"


class Masked(nn.Module):
    """Makes an attention's mask of integers and a number."""

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        mask = (1 - seen)[:, None, None, :] * torch.tensor(-1e4, dtype=torch.float64).item()
        return nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(3))
def test_a_number_times_integers_stays_float32(deploy, seed: int):
    torch.manual_seed(seed)
    inputs = (torch.randn(1, 2, 4, 8), torch.tensor([[1, 1, 1, 0]]))
    assert deploy(Masked(), inputs, export={"ir": "torchscript"}).verdict == "verified"


class Codes(nn.Module):
    """Takes codes from 40 on, as nothing made is."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(8, 4)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.table(codes - 40)


def test_a_model_that_rejects_random_inputs_runs_on_the_callers(deploy):
    codes = torch.tensor([[41, 47, 43]])
    assert deploy(Codes(), codes, export={"ir": "torchscript"}).verdict == "verified"
