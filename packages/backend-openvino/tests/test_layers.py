"""The times of a compiled model's layers, and the nodes that are fused into each."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.authors.artifacts import load_request


def test_layers_have_times_nodes_and_modules(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(576, 2))
    x = torch.randn(1, 3, 8, 8)
    artifact = eb.deploy(
        model, x, backend="openvino", work_dir=tmp_path / "a", verify=eb.VerifyOptions(probes=0)
    ).artifact
    found = load_request(artifact).time_layers({"input": x.numpy()}, 5)
    modules = artifact.modules()
    named = [{modules.get(node) for node in layer.nodes} - {None} for layer in found]
    assert {"0", "1"} in named
    assert {"3"} in named
    assert all(0 <= layer.seconds < 0.1 for layer in found)
    assert all(isinstance(layer.operator, str) and layer.operator for layer in found)
    assert np.isfinite(sum(layer.seconds for layer in found))


@pytest.mark.parametrize("by_channel", [False, True])
def test_layers_between_fake_quantisations_stay_in_single_precision(tmp_path, by_channel):
    class Quantised(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 8, 3)

        def steps(self, x):
            if not by_channel:
                return torch.fake_quantize_per_tensor_affine(x, 0.03, 0, -128, 127)
            scales, zeros = torch.full((x.shape[1],), 0.03), torch.zeros(x.shape[1]).int()
            return torch.fake_quantize_per_channel_affine(x, scales, zeros, 1, -128, 127)

        def forward(self, x):
            return self.steps(torch.relu(self.conv(self.steps(x)))).mean((2, 3))

    torch.manual_seed(0)
    deployed = eb.deploy(
        Quantised().eval(), torch.randn(1, 3, 8, 8), backend="openvino", work_dir=tmp_path / "out"
    )
    assert (deployed.verdict, deployed.receipt.precision) == ("verified", "fp32")
