"""Operators that an exporter lacks are computed at export if no input affects their values."""

from __future__ import annotations

import pytest
import torch
from packages.core.tests.rewriting.lowered import Net
from torch import nn
from torch.nn.utils.parametrizations import orthogonal

from enginebay.errors import ExportError
from enginebay.params import DynamicDim


def inverse(x, w):
    left, values, right = torch.linalg.svd(w)
    return x @ left @ torch.diag(values) @ right


OPEN = {"input_names": ["x"], "dynamic": {"x": {0: DynamicDim("batch")}}}
MODELS = {
    "orthogonal weight": lambda: orthogonal(nn.Linear(6, 6)),
    "orthogonal weight by reflections": lambda: orthogonal(nn.Linear(6, 4)),
    "operator with several results": lambda: Net(inverse, w=torch.rand(6, 6)),
    "operator that torch decomposes": lambda: Net(lambda x, w: x * torch.i0(w), w=torch.rand(6)),
    "constant output": lambda: Net(lambda x, w: (x * 2, torch.i0(w)), w=torch.rand(6)),
}


@pytest.mark.parametrize("name", MODELS)
def test_missing_operators_of_constants_are_folded(export, name):
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    exported = export(model, (torch.rand(2, 6),), builtin=True, **OPEN)
    x = torch.randn(5, 6)
    expected = model(x)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for result, value in zip(exported.run(x), expected, strict=True):
        torch.testing.assert_close(result, value)


class Counts(nn.Module):
    """A buffer that every call changes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.ones(1))

    def forward(self, x):
        self.calls += 1
        return x * torch.i0(self.calls)


@pytest.mark.parametrize("model", [Net(lambda x: torch.i0(x)), Counts()], ids=["input", "buffer"])
def test_values_that_depend_on_inputs_are_not_folded(export, model):
    with pytest.raises(ExportError, match="bessel_i0"):
        export(model, (torch.rand(2, 6),), builtin=True)


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_large_inverse_of_a_weight_is_folded(export, exporter):
    """The lowering for a matrix that depends on an input is limited to 128 rows."""
    model = Net(lambda x, w: x @ torch.linalg.inv(w), w=torch.rand(200, 200) + torch.eye(200))
    x = torch.rand(2, 200)
    exported = export(model, (x,), exporter=exporter, builtin=True)
    torch.testing.assert_close(exported.run(x)[0], model(x), rtol=1e-3, atol=1e-3)
