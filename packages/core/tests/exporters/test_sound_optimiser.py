"""The optimiser changes no result: small constants, products of stacked matrices, clamps."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from packages.core.tests.exports import export
from torch import nn

from enginebay.evaluator.onnx_evaluator import reference_outputs

FUNCTIONS = {
    "x + 1e-8": lambda x: 1 / (x + 1e-8),
    "1e-12 + x": lambda x: 1 / (1e-12 + x),
    "x - 1e-9": lambda x: 1 / (x - 1e-9),
    "share": lambda x: x / (x.sum() + 1e-10),
    "rms": lambda x: torch.rsqrt(x.square().mean() + 1e-9),
    "entropy": lambda x: -(x * (x + 1e-10).log()).sum(),
    "x * 1.000008": lambda x: (x + 1) * 1.000008 - 1,
}


class Applied(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def check_zeros(path, function, exporter: str) -> None:
    zeros = torch.zeros(2, 3)
    ir = export(Applied(function), (torch.rand(2, 3),), path=path, exporter=exporter)
    (output,) = reference_outputs(ir.path, {ir.inputs[0].name: zeros.numpy()}).values()
    np.testing.assert_allclose(output, function(zeros).numpy(), rtol=1e-6)


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.one_in(2)
def test_optimiser_preserves_small_constants(tmp_path, function, exporter: str) -> None:
    check_zeros(tmp_path / "m.onnx", function, exporter)


def test_optimiser_removes_operations_without_effect(tmp_path) -> None:
    import onnx

    ir = export(Applied(lambda x: (x + 0) * 1 - 0), (torch.rand(2, 3),), path=tmp_path / "m.onnx")
    assert {node.op_type for node in onnx.load(ir.path).graph.node} == {"Identity"}


TABLE = torch.arange(64.0).reshape(2, 8, 4).sin()
FUSED = {
    "rows of two images in one": (
        lambda x: (x.reshape(2, 8, 8) @ TABLE).reshape(2, 2, 4, 4),
        (2, 2, 4, 8),
    ),
    "clamps without a common range": (lambda x: x.clamp(-1.0, 0.0).clamp(0.5, 1.0) + x, (3, 5)),
    "relu of a negative maximum": (lambda x: torch.relu(x.clamp(max=-0.5)) + x, (3, 5)),
    "clamps of one input": (
        lambda x: x.clamp(-2, 2).clamp(-1, 1) + x.clamp(-3, 3).clamp(0, 9),
        (3, 5),
    ),
}


@pytest.mark.parametrize(("function", "shape"), FUSED.values(), ids=FUSED)
def test_fused_operators_compute_the_same(tmp_path, function, shape) -> None:
    x = torch.linspace(-4, 4, math.prod(shape)).reshape(shape)
    ir = export(Applied(function), (x,), path=tmp_path / "m.onnx", exporter="dynamo")
    (output,) = reference_outputs(ir.path, {ir.inputs[0].name: x.numpy()}).values()
    np.testing.assert_allclose(output, function(x).numpy(), rtol=1e-5, atol=1e-5)


def test_optimiser_with_unknown_internals_is_not_used(tmp_path, monkeypatch) -> None:
    from onnxscript.rewriter._matcher import SimplePatternMatcher

    monkeypatch.delattr(SimplePatternMatcher, "_match_constant")
    check_zeros(tmp_path / "m.onnx", FUNCTIONS["share"], "dynamo")
