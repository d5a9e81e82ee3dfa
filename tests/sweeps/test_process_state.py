"""Changes that a model's code makes in torch are undone before the next cell."""

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


def test_functions_patched_by_a_model_are_restored(net: Path) -> None:
    net.with_name("patches.py").write_text(PATCHES)
    originals = (torch.nn.functional.relu, torch.Tensor.exp, torch.nn.Linear.forward)
    swept(cell_of("patches.py:build"))
    assert (torch.nn.functional.relu, torch.Tensor.exp, torch.nn.Linear.forward) == originals
    assert torch.get_default_dtype() == torch.float32
    assert swept(cell_of()).verdict == "verified"
