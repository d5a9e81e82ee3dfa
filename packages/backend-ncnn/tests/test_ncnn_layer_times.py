"""The times of ncnn's layers, measured by extracting their outputs one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from enginebay.authors.artifacts import load_request


@pytest.mark.parametrize("batch", [1, 3])
def test_every_layer_is_timed(deploy, convolutions, batch):
    model, args = convolutions
    artifact = deploy(model, args, dynamic={"image": {0: ("batch", 1, 4)}}).artifact
    inputs = {
        name: np.repeat(array, batch, 0) if name == "image" else array
        for name, array in artifact.samples()[0].inputs.items()
    }
    found = load_request(artifact).time_layers(inputs, 3)
    assert any(layer.operator.startswith("Convolution") for layer in found)
    assert len({layer.name for layer in found}) == len(found)
    assert all(0 <= layer.seconds < 0.1 for layer in found)
    assert sum(layer.seconds for layer in found) > 0
