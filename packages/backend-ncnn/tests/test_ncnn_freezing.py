"""What freezing a saved trace must not change."""

from __future__ import annotations

import torch
from torch import nn


class Timestep(nn.Module):
    """The embedding of a time as diffusion models have it: sines of frequencies."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(8, 8)])

    def forward(self, time: torch.Tensor) -> torch.Tensor:
        frequencies = torch.exp(-9.21 * torch.arange(4) / 4.5)
        angles = time[:, None].float() * frequencies[None]
        return self.parts[0](torch.cat([angles.sin(), angles.cos()], -1))


def test_numbers_times_integers_stay_float32(deploy):
    deployed = deploy(Timestep(), torch.tensor([17, 3]), export={"ir": "torchscript"})
    assert deployed.verdict == "verified"
