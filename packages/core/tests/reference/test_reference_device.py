"""The name of the reference says which device PyTorch computed on."""

from __future__ import annotations

import pytest
import torch

from enginebay.models import bind
from enginebay.reference import reference_for
from enginebay.sources import find_model


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("cpu", "the PyTorch model, unpatched"),
        ("meta", "the PyTorch model, unpatched, on meta"),  # a device of every machine
    ],
)
def test_another_device_than_the_cpu_is_named(device: str, name: str) -> None:
    model = torch.nn.Linear(2, 3).eval()
    bound = bind(find_model(model), torch.ones(1, 2))
    model.to(device)
    assert reference_for(bound, "onnxruntime").description == name
