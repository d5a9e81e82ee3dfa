"""Small constants reach the ONNX file: without them zeros give NaN."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from packages.core.tests.exports import export
from torch import nn

from enginebay.verification.onnx_evaluator import reference_outputs

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
    (found,) = reference_outputs(ir.path, {ir.inputs[0].name: zeros.numpy()}).values()
    np.testing.assert_allclose(found, function(zeros).numpy(), rtol=1e-6)


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.one_in(2)
def test_small_constants_are_kept(tmp_path, function, exporter: str) -> None:
    check_zeros(tmp_path / "m.onnx", function, exporter)


def test_what_changes_nothing_is_still_removed(tmp_path) -> None:
    import onnx

    ir = export(Applied(lambda x: (x + 0) * 1 - 0), (torch.rand(2, 3),), path=tmp_path / "m.onnx")
    assert {node.op_type for node in onnx.load(ir.path).graph.node} == {"Identity"}


def test_an_unknown_optimiser_is_not_used(tmp_path, monkeypatch) -> None:
    from onnxscript.rewriter._matcher import SimplePatternMatcher

    monkeypatch.delattr(SimplePatternMatcher, "_match_constant")
    check_zeros(tmp_path / "m.onnx", FUNCTIONS["share"], "dynamo")
