"""What a model's code changes in torch is changed back before the next cell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from tests.sweeps.cells import cell_of, swept

if TYPE_CHECKING:
    from pathlib import Path

PATCHES = """
import torch

torch.nn.functional.relu = lambda x, inplace=False: x * 0
torch.Tensor.exp = lambda self: self
torch.nn.Linear.forward = lambda self, x: x[..., :3]
torch.set_default_dtype(torch.float64)


def build():
    return torch.nn.Linear(4, 3), torch.ones(1, 4)
"""


def test_functions_that_a_model_replaced(net: Path) -> None:
    net.with_name("patches.py").write_text(PATCHES)
    kept = (torch.nn.functional.relu, torch.Tensor.exp, torch.nn.Linear.forward)
    swept(cell_of("patches.py:build"))
    assert (torch.nn.functional.relu, torch.Tensor.exp, torch.nn.Linear.forward) == kept
    assert torch.get_default_dtype() == torch.float32
    assert swept(cell_of()).verdict == "verified"
