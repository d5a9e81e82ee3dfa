"""Attention returns zeros, as PyTorch does, in a row whose boolean mask hides every key."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import enginebay as eb


class Causal(nn.Module):
    """Hides later keys and padding: with padding in front the first rows have no keys."""

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        heads = x.unflatten(-1, (2, 4)).transpose(1, 2)
        earlier = torch.ones(6, 6, dtype=torch.bool).tril()
        mask = earlier & seen.bool()[:, None, None, :]
        return nn.functional.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask)


class Padded(nn.Module):
    """Takes the mask as it is, one for all rows."""

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=seen[:, None, :])


@pytest.mark.parametrize(
    ("model", "dtype", "seen"),
    [
        (Causal(), torch.int64, [[0, 0, 1, 1, 0, 1]]),
        (Causal(), torch.int64, [[0, 0, 1, 1, 0, 1], [1, 1, 1, 0, 0, 0]]),
        (Padded(), torch.bool, [[0, 0, 0, 0, 0, 0]]),
        (Padded(), torch.bool, [[0, 0, 0, 0, 0, 0], [1, 0, 1, 0, 0, 1]]),
    ],
    ids=["causal", "causal, two", "padded", "padded, two"],
)
@pytest.mark.one_in(2)
def test_attention_with_hidden_rows_matches_torch(deploy, model, dtype, seen) -> None:
    x, hiding = torch.randn(len(seen), 6, 8), torch.tensor(seen, dtype=dtype)
    example = torch.tensor([[1, 1, 1, 1, 0, 0]] * len(seen), dtype=dtype)
    deployed = deploy(model, {"x": x, "seen": example}, export={"ir": "torchscript"})
    assert deployed.verdict == "verified"
    with eb.load(deployed.artifact.path) as wrapper:
        (found,) = wrapper({"x": x.numpy(), "seen": hiding.numpy()}).values()
    expected = model(x, hiding).numpy()
    assert not expected[0, ..., 0, :].any()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


class Fixed(nn.Module):
    """Has its mask as a constant."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(6, 6, dtype=torch.bool).tril(-1)
        return nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=mask).cummax(1).values


def test_attention_with_a_constant_hidden_row_matches_torch(deploy) -> None:
    assert deploy(Fixed(), -torch.rand(1, 6, 8), export={"ir": "torchscript"}).verdict == "verified"
