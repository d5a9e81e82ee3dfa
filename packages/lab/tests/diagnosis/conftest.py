"""A backend whose layers compute in 8 bits, and a model with layers of very different errors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay_testing import temporary_backend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay.authors.arrays import NumpyArray


class Layered(NamedTuple):
    """A model whose second layer loses most in 8 bits, its last one less, its first one least.

    Attributes:
        model: The model.
        example: The example input.
        data: Items to calibrate with, and to measure on.
        nodes: The names of its layers in the graph, in the order of the model.
        options: The other arguments of ``eb.deploy``.
    """

    model: nn.Module
    example: torch.Tensor
    data: list[dict[str, NumpyArray]]
    nodes: tuple[str, ...]
    options: dict[str, Any]


@pytest.fixture(scope="module")
def eightbits() -> Iterator[str]:
    """Install the backend with 8-bit weights, for this process and its children."""
    source = (Path(__file__).parent / "eight_bits_backend.py").read_text()
    with temporary_backend("eightbits", source):
        yield "eightbits"


@pytest.fixture(scope="module")
def layered(eightbits: str) -> Layered:
    """A model of three layers, in which outliers among the weights decide the errors."""
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3))
    ).eval()
    with torch.no_grad():
        model[0].bias[0] = model[0].weight[0] = 0  # so that the first value is always 0,
        model[2].weight[0, 0] = 30  # and the outlier changes nothing in floating point
        model[4].weight[0, 0] = 3
    random = np.random.default_rng(0)
    items = random.normal(size=(16, 1, 4)).astype(np.float32)
    return Layered(
        model,
        torch.from_numpy(items[0]),
        [{"input": item} for item in items],
        tuple(f"/model/model.{number}/Gemm" for number in (0, 2, 4)),
        {
            "backend": eightbits,
            "params": {"precision": "int8"},
            "export": eb.ExportOptions(exporter="torchscript"),
        },
    )
