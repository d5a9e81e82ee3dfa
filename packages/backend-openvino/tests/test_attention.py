"""Attention is right where OpenVINO's own kernel overwrites its query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import enginebay as eb

if TYPE_CHECKING:
    from pathlib import Path


def by_token(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(1, 2)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (q @ k.transpose(-1, -2) * 0.3).softmax(-1) @ v


SIDES = {
    "output": lambda q, k, v: by_token(attention(q, k, v)),
    "query": lambda q, k, v: attention(by_token(q), k, v),
    "torch's own": lambda q, k, v: by_token(F.scaled_dot_product_attention(q, k, v)),
}


class Packed(nn.Module):
    """Query, key and value in one tensor, as a projection leaves them."""

    def __init__(self, side: str) -> None:
        super().__init__()
        self.side = SIDES[side]

    def forward(self, x: torch.Tensor) -> Any:
        return self.side(*x.permute(2, 0, 3, 1, 4))


@pytest.mark.parametrize("ir", ["onnx", "torchscript"])
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.one_in(3)
def test_attention_with_as_many_heads_as_tokens_is_verified(
    side: str, ir: Any, tmp_path: Path
) -> None:
    """OpenVINO's own kernel is wrong; when it is right, the workaround can be removed."""
    model, x = Packed(side), torch.randn(2, 4, 3, 4, 8)
    deployment = eb.deploy(
        model, x, backend="openvino", work_dir=tmp_path / "out", export=eb.ExportOptions(ir=ir)
    )
    assert deployment.verdict == "verified"
    with eb.load(tmp_path / "out") as wrapper:
        assert wrapper.receipt.details["snippets_mode"] == "disable"
    with_kernel = {"SNIPPETS_MODE": "ENABLE"}
    wrong = eb.deploy(
        model,
        x,
        backend="openvino",
        params={"properties": with_kernel},
        work_dir=tmp_path / "wrong",
        export=eb.ExportOptions(ir=ir),
        verify=eb.VerifyOptions(allow_mismatch=True),
    )
    assert wrong.verdict == "mismatched"


def test_attention_is_verified_on_auto(tmp_path: Path) -> None:
    deployment = eb.deploy(
        Packed("output"),
        torch.randn(2, 4, 3, 4, 8),
        backend="openvino",
        params={"device": "auto"},
        work_dir=tmp_path / "out",
    )
    assert deployment.verdict == "verified"


def test_fewer_heads_than_tokens_use_the_fused_kernel(tmp_path: Path) -> None:
    x = torch.randn(2, 5, 3, 4, 8)
    eb.deploy(Packed("output"), x, backend="openvino", work_dir=tmp_path / "out")
    with eb.load(tmp_path / "out") as wrapper:
        assert "snippets_mode" not in wrapper.receipt.details
