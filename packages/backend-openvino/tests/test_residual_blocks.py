"""Residual blocks of linear layers do not end the process in OpenVINO's compiler."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import enginebay as eb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Block(nn.Module):
    def __init__(self, join: Callable[[Any, Any], Any] = operator.add) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
        self.join = join

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.join(self.inner(x), x)
        return y


def snippets_mode(model: nn.Module, x: torch.Tensor, folder: Path, **options: Any) -> str | None:
    deployment = eb.deploy(model, x, backend="openvino", work_dir=folder, **options)
    assert deployment.verdict == "verified"
    with eb.load(folder) as wrapper:
        return wrapper.receipt.details.get("snippets_mode")


@pytest.mark.parametrize("rows", [4, 6, 8, 16])
@pytest.mark.parametrize("join", [operator.add, operator.mul, torch.maximum])
@pytest.mark.one_in(4)
def test_stacked_residual_blocks_disable_fused_kernels(
    rows: int, join: Any, tmp_path: Path
) -> None:
    """OpenVINO's own compilation ends with SIGSEGV for three of these on two threads."""
    model = nn.Sequential(Block(), Block(join))
    assert snippets_mode(model, torch.randn(rows, 16), tmp_path / "out") == "disable"


@pytest.mark.parametrize("params", [{"device": "auto"}, {"fp16_weights": True}])
def test_fused_kernels_are_disabled_with_other_params(
    params: dict[str, Any], tmp_path: Path
) -> None:
    model = nn.Sequential(Block(), Block())
    x = torch.randn(4, 16)
    assert snippets_mode(model, x, tmp_path / "out", params=params) == "disable"


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)), (4, 16)),
        (nn.Sequential(Block(), Block()), (1, 16)),
        (nn.Sequential(Block(), Block()), (2, 4, 16)),
    ],
)
def test_other_networks_use_fused_kernels(
    model: nn.Module, shape: tuple[int, ...], tmp_path: Path
) -> None:
    assert snippets_mode(model, torch.randn(shape), tmp_path / "out") is None


def test_a_dynamic_number_of_rows_uses_fused_kernels(tmp_path: Path) -> None:
    found = snippets_mode(
        nn.Sequential(Block(), Block()),
        torch.randn(4, 16),
        tmp_path / "out",
        dynamic={"input": {0: (1, 16)}},
    )
    assert found is None
