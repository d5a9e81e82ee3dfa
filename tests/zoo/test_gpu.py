"""A few of the zoo's models on a GPU: ``nox -s gpu``."""

from __future__ import annotations

import os

import pytest

from tests.zoo.cells import measure_model
from tests.zoo.results import Column

BACKEND = os.environ.get("ENGINEBAY_GPU", "")
pytestmark = pytest.mark.skipif(not BACKEND, reason="requires a GPU and nox -s gpu")
WAYS = [Column(BACKEND, "dynamo"), Column(BACKEND, "torchscript")]


@pytest.mark.parametrize("model", ["bert", "convnext", "llama", "resnet", "swin", "vit"])
def test_a_few_models_are_verified_on_a_gpu(model: str) -> None:
    measured = measure_model(model, WAYS)
    assert [(cell.column, cell.state, cell.reason) for cell in measured] == [
        (column, "verified", "") for column in WAYS
    ]
