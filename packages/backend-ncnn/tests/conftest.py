"""What these tests share: one deployment in a few words, and conversion without the first run."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Convolutions(nn.Module):
    """A network of the kind that pnnx converts as it is; one of its inputs is not used."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.linear = nn.Linear(8, 5)

    def forward(self, image: Tensor, unused: Tensor, offset: Tensor) -> dict[str, Tensor]:
        maps = torch.relu(self.norm(self.convolution(image)))
        return {"logits": self.linear(maps.mean((2, 3))) + offset, "maps": maps}


class Tokens(nn.Module):
    """Integers in two roles, a table's and a number's, and a boolean mask."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 4)

    def forward(self, ids: Tensor, keep: Tensor) -> dict[str, Tensor]:
        known = self.table(ids) * keep.unsqueeze(-1)
        return {"known": known, "next": ids + 1, "is_first": ids.eq(1) & keep}


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(0)


@pytest.fixture
def deploy(tmp_path: Path) -> Callable[..., eb.Deployment]:
    """Deploy for ncnn, with one thread."""
    numbers = count()

    def deploy(model: Any, args: Any, **options: Any) -> eb.Deployment:
        params = {"threads": 1} | options.pop("params", {})
        folder = tmp_path / f"artifact_{next(numbers)}"
        return eb.deploy(model, args, backend="ncnn", work_dir=folder, params=params, **options)

    return deploy


@pytest.fixture
def convolutions() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A small network of convolutions, and its example inputs."""
    return Convolutions(), (torch.randn(1, 3, 8, 8), torch.randn(4), torch.randn(5))


@pytest.fixture
def tokens() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A small network of look-ups, and its example inputs."""
    return Tokens(), (torch.randint(0, 10, (1, 6)), torch.rand(1, 6) < 0.5)
