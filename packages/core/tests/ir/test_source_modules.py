"""The source module of each node of an ONNX file."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import onnx
import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.ir import source_modules

if TYPE_CHECKING:
    from pathlib import Path


class Net(nn.Module):
    """Nested containers, a module that is called twice, and a node of the model's own."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Sequential(nn.ReLU(), nn.Conv2d(4, 4, 1)))
        self.heads = nn.ModuleList([nn.Linear(4, 4)])
        self.act = nn.Sigmoid()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(x)
        return self.act(self.heads[0](self.act(x.amax((2, 3)))))


def operators(path: Path) -> dict[str, set[str]]:
    nodes = onnx.load(path).graph.node
    found = source_modules(path)
    return {
        node.op_type: {found[each.name] for each in nodes if each.op_type == node.op_type}
        for node in nodes
        if node.op_type in ("Conv", "Relu", "Sigmoid", "Gemm", "ReduceMax")
    }


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_every_node_has_its_module(tmp_path: Path, exporter: str) -> None:
    model = eb.export(
        *(Net().eval(), torch.rand(1, 3, 8, 8)),
        path=tmp_path / "net.onnx",
        options=eb.ExportOptions(ir="onnx", exporter=exporter),  # type: ignore[arg-type]  # the parameter is text
    )
    again = {"act_1"} if exporter == "torchscript" else {"act"}
    assert operators(model.path) == {
        "Conv": {"body.0", "body.1.1"},
        "Relu": {"body.1.0"},
        "ReduceMax": {""},
        "Sigmoid": {"act"} | again,
        "Gemm": {"heads.0"},
    }


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_nodes_of_a_bare_container_have_their_modules(tmp_path: Path, exporter: str) -> None:
    model = eb.export(
        *(nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU())), torch.rand(1, 4)),
        path=tmp_path / "net.onnx",
        options=eb.ExportOptions(ir="onnx", exporter=exporter),  # type: ignore[arg-type]  # the parameter is text
    )
    assert operators(model.path) == {"Gemm": {"0"}, "Relu": {"1.0"}}


def test_outputs_have_the_modules_of_their_nodes(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    eb.export(Net().eval(), torch.rand(1, 3, 8, 8), path=path, options=eb.ExportOptions(ir="onnx"))
    nodes, found = source_modules(path), source_modules(path, with_outputs=True)
    assert found == nodes | {"output": "act"}


def test_modules_are_read_from_a_plain_torch_export(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    with warnings.catch_warnings(action="ignore"):
        torch.onnx.export(Net().eval(), (torch.rand(1, 3, 8, 8),), path, dynamo=True, verbose=False)
    assert operators(path)["Conv"] == {"body.0", "body.1.1"}


def test_unusable_metadata_is_ignored(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[n] x) => (float[n] y) '
        "{ a = Neg(x)  b = Neg(a)  c = Neg(b)  y = Neg(c) }"
    )
    texts = ("1 +", "[1, 2]", "{}")
    for number, (node, text) in enumerate(zip(model.graph.node, texts, strict=False)):
        node.name = f"n{number}"
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=text)
    onnx.save(model, tmp_path / "net.onnx")
    assert source_modules(tmp_path / "net.onnx") == {}
