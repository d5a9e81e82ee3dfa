"""Rounding may change a few of many indices of the largest scores; no conversion fails of it."""

from __future__ import annotations

import torch
from torch import nn

import enginebay as eb


class TwoClasses(nn.Module):
    """The scores of two classes, which differ by the share ``apart`` of their size."""

    def __init__(self, apart: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.features = nn.Conv2d(3, 64, 3, padding=1)
        self.scores = nn.Conv2d(64, 2, 1, bias=False)
        with torch.no_grad():
            self.scores.weight[1] = self.scores.weight[0] + apart * self.scores.weight[1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scores(self.features(x).relu()).argmax(1, keepdim=True)


def test_a_segmenter_with_near_ties_is_converted(deploy) -> None:
    deployed = deploy(
        TwoClasses(1e-4).eval(),
        torch.randn(1, 3, 96, 96),
        export={"ir": "torchscript", "output_names": ("classes",)},
        verify=eb.VerifyOptions(compare={"classes": "class-map"}),
    )
    assert deployed.verdict == "verified"
