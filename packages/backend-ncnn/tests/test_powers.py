"""Powers match torch at zero and below, where ncnn's own layer is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import enginebay as eb

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = (-3, -2, -1, 0, 1, 2, 3, 4, 5, 6.0, 7)
OTHERS = (-1.5, -0.5, 0.5, 1.5, 2.5, 1 / 3, 2.2)


class Powers(nn.Module):
    """Powers of any numbers, of a sum, and of numbers that are never negative."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        some = [x**power for power in WHOLE if power >= 0]
        some += [(x + 1) ** power for power in WHOLE if power >= 0]
        some += [(x.square() + 0.1) ** power for power in (*WHOLE, *OTHERS)]
        return some + [x.abs() ** power for power in OTHERS if power > 0]


def test_powers_match_torch(tmp_path: Path) -> None:
    x = torch.linspace(-2, 2, 24).reshape(1, 3, 8)
    deployed = eb.deploy(Powers(), x, backend="ncnn", work_dir=tmp_path / "out")
    assert deployed.verdict == "verified"
    assert deployed.verification.basis is not None
    assert "zeros" in deployed.verification.basis.labels


@pytest.mark.slow
@pytest.mark.parametrize("layer", ["0=6", "0=9"])
def test_no_layer_computes_a_power(layer: str, tmp_path: Path) -> None:
    eb.deploy(Powers(), torch.rand(1, 3, 8), backend="ncnn", work_dir=tmp_path / "out")
    lines = (tmp_path / "out" / "model.param").read_text().splitlines()
    assert not [line for line in lines if line.startswith("BinaryOp") and f" {layer} 1=1" in line]
