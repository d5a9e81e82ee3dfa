"""Rounding may change a few of many indices of the largest scores; no conversion fails of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

import enginebay as eb

if TYPE_CHECKING:
    from pathlib import Path


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


def test_a_segmenter_with_near_ties_is_converted(tmp_path: Path) -> None:
    model, images = TwoClasses(1e-4).eval(), torch.randn(1, 3, 96, 96)
    options = {"output_names": ("classes",)}
    ir = eb.export(model, images, path=tmp_path / "net.pt", backend="ncnn", options=options)
    artifact = eb.convert(ir, backend="ncnn", work_dir=tmp_path / "out")
    with eb.load(artifact) as wrapper:
        (found,) = wrapper({spec.name: images.numpy() for spec in wrapper.inputs}).values()
    assert (found != model(images).numpy()).mean() < 1e-3
