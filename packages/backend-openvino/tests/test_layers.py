"""The times of a compiled model's layers, and the nodes that are fused into each."""

from __future__ import annotations

import numpy as np
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
