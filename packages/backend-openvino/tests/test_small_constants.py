"""Epsilons work on OpenVINO: zeros produce PyTorch's numbers, not NaN."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import enginebay as eb


class Epsilons(nn.Module):
    def forward(self, x):
        rms = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-9)
        return x / (x + 1e-8), x / (x + 1e-12), x / (x.sum() + 1e-10), x * rms, rms


WAYS = [
    {"ir": "onnx", "exporter": "dynamo"},
    {"ir": "onnx", "exporter": "torchscript"},
    {"ir": "torchscript"},
    {"ir": "exported_program"},
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(way.values()))
def test_epsilons_prevent_nan_on_zeros(tmp_path, way) -> None:
    eb.deploy(
        Epsilons(),
        torch.rand(2, 3),
        backend="openvino",
        work_dir=tmp_path / "out",
        export=way,
    )
    zeros = torch.zeros(2, 3)
    with eb.load(tmp_path / "out") as wrapper:
        found = wrapper({wrapper.input_names[0]: zeros.numpy()})
    for output, expected in zip(found.values(), Epsilons()(zeros), strict=True):
        np.testing.assert_allclose(output, expected.numpy(), rtol=1e-5)
