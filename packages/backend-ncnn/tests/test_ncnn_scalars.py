"""Inputs without dimensions: a model's own, and those of the parts of a model that is cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
import torch

import enginebay as eb
from enginebay.authors.files import read_onnx
from enginebay_ncnn.onnx_files import save_onnx_for_pnnx

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


class Applied(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x, eb.mark(x.mean(), "scalar"))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "function",
    [
        lambda x, mean: x.relu() * mean,
        lambda x, mean: torch.cat([mean.unsqueeze(0), x.flatten()]),
        lambda x, mean: (mean, x - mean),
    ],
    ids=["broadcast", "one dimension", "an output too"],
)
def test_a_scalar_at_a_cut_is_verified(deploy: Any, function: Callable[..., Any]) -> None:
    model, x = Applied(function), torch.randn(1, 3, 4)
    deployed = deploy(model, x, export={"cuts": ["scalar"], "exporter": "torchscript"})
    assert deployed.verdict == "verified"
    first, second = deployed.artifact.manifest.parts
    assert "scalar" in [spec.name for spec in first.outputs]
    assert next(s for s in second.inputs if s.name == "scalar").dims == ()


def test_scalars_at_two_cuts_are_verified(deploy: Any) -> None:
    model = Applied(lambda x, mean: eb.mark(mean * x, "scaled").exp() + mean)
    cuts = ["scalar", "scaled"]
    deployed = deploy(model, torch.randn(1, 3, 4), export={"cuts": cuts, "exporter": "torchscript"})
    assert deployed.verdict == "verified"
    assert len(deployed.artifact.manifest.parts) == 3


def test_an_integer_scalar_is_verified(deploy: Any) -> None:
    class Picked(torch.nn.Module):
        def forward(self, x: Tensor, factor: Tensor) -> Any:
            return x * factor, factor + 1

    deployed = deploy(
        Picked(), (torch.randn(1, 3, 4), torch.tensor(3)), export={"ir": "torchscript"}
    )
    assert deployed.verdict == "verified"


@pytest.mark.parametrize("ir", ["torchscript", "onnx"])
def test_a_scalar_input_is_verified(deploy: Any, ir: str) -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x: Tensor, factor: Tensor) -> Tensor:
            return x.relu() * factor

    deployed = deploy(Scaled(), (torch.randn(1, 3, 4), torch.tensor(2.0)), export={"ir": ir})
    assert deployed.verdict == "verified"
    with eb.load(deployed.artifact) as wrapper:
        x = np.ones((1, 3, 4), np.float32)
        assert (wrapper({"x": x, "factor": np.float32(3)})["output"] == 3).all()


def test_the_name_added_for_a_scalar_input_is_unused(tmp_path: Any) -> None:
    header = '<ir_version: 8, opset_import: ["": 17]> graph '
    text = "(float s) => (float y) { s_scalar = Exp(s) y = Add(s, s_scalar) }"
    model = onnx.parser.parse_model(header + text)
    model.graph.input[0].type.tensor_type.shape.SetInParent()
    onnx.save(model, tmp_path / "given.onnx")
    save_onnx_for_pnnx(read_onnx(tmp_path / "given.onnx"), tmp_path / "m.onnx", ["s"])
    found = onnx.load(tmp_path / "m.onnx").graph
    assert [list(node.input) for node in found.node] == [
        ["s"],
        ["s_scalar_"],
        ["s_scalar_", "s_scalar"],
    ]
    onnx.checker.check_model(tmp_path / "m.onnx", full_check=True)
