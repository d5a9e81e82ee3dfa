"""Rotary positions before attention: pnnx's layer for them must not take their neighbours' axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import enginebay as eb

if TYPE_CHECKING:
    from pathlib import Path


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Attention(nn.Module):
    """Four heads of the query, two of the key, and a causal mask that has to be lowered."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(32, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        query = self.query(x).view(1, -1, 4, 8).transpose(1, 2)
        key = self.key(x).view(1, -1, 2, 8).transpose(1, 2)
        key = rotated(key, cos.unsqueeze(1), sin.unsqueeze(1))
        return nn.functional.scaled_dot_product_attention(
            query, key, key, is_causal=True, scale=0.3, enable_gqa=True
        )


@pytest.mark.slow
@pytest.mark.parametrize("halves", ["equal", "different"])
def test_grouped_attention_with_rotary_embeddings_is_verified(tmp_path: Path, halves: str) -> None:
    torch.manual_seed(0)
    cos, sin = torch.randn(2, 1, 6, 8)
    if halves == "equal":
        cos[..., 4:], sin[..., 4:] = cos[..., :4], sin[..., :4]
    deployment = eb.deploy(
        *(Attention().eval(), (torch.randn(1, 6, 32), cos, sin)),
        backend="ncnn",
        work_dir=tmp_path / "rotary",
        export=eb.ExportOptions(ir="torchscript"),
        verify=eb.VerifyOptions(probes=0),
    )
    assert deployment.verdict == "verified"
