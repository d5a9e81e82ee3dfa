"""Models whose values choose a branch: the file has both sides of ``torch.cond``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

import enginebay as eb

if TYPE_CHECKING:
    from pathlib import Path


class Gate(nn.Module):
    """Two layers, of which the values of the input choose one."""

    def __init__(self) -> None:
        super().__init__()
        self.bright = nn.Linear(4, 3)
        self.dark = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen: torch.Tensor = torch.cond(
            x.mean() > 0, lambda x: self.bright(x), lambda x: self.dark(x), (x,)
        )
        return chosen


# torch.cond compiles its branches, and torch.compile imports deprecated parts of torch itself.
@pytest.mark.filterwarnings("ignore:.*torch.jit", "ignore:.*LeafSpec")
@pytest.mark.parametrize("dynamic", [None, "batch"])
def test_both_branches_of_torch_cond_are_exported(
    loopback: str, tmp_path: Path, dynamic: str | None
) -> None:
    torch.manual_seed(0)
    model = Gate().eval()
    deployment = eb.deploy(
        model, torch.rand(2, 4), backend=loopback, work_dir=tmp_path / "gate", dynamic=dynamic
    )
    assert deployment.verdict == "verified"
    with eb.load(tmp_path / "gate") as engine:
        for x in (torch.rand(2, 4), -torch.rand(2, 4)):
            found = engine({"x": x.numpy()})["output"]
            assert np.allclose(found, model(x).detach().numpy(), atol=1e-5)
