"""The networks of one operator each, and the kit's report about them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils import _pytree as pytree

from enginebay_testing import temporary_backend
from enginebay_testing.operators import OPERATORS, build, cases

from .broken import source
from .test_kit import run

if TYPE_CHECKING:
    from pathlib import Path

#: Refuses floor, and takes ceil for floor.
ROUNDS_WRONGLY = """
    @eb.hookimpl
    def to_backend(request):
        import onnx
        from enginebay.errors import ConversionError
        model = onnx.load(request.ir.path)
        for node in model.graph.node:
            if node.op_type == "Floor":
                raise ConversionError("it has no floor")
            if node.op_type == "Ceil":
                node.op_type = "Floor"
        onnx.save(model, request.work_dir / "model.onnx")
        return ["model.onnx"]
"""


def test_every_network_runs_and_gives_numbers() -> None:
    assert len(cases()) > 250
    for name, text in cases().items():
        network, inputs = build(text)
        assert inputs, name
        with torch.no_grad():
            outputs: list[Any] = pytree.tree_leaves(network(*inputs.values()))
        for output in outputs:
            assert output.numel(), name
            assert not output.is_floating_point() or output.isfinite().all(), name


@pytest.mark.slow
def test_the_report_says_which_are_verified_refused_or_wrong(tmp_path: Path) -> None:
    words = ("--operators", "-k", "x.floor or x.ceil or x.round", "--conformance-report", "out")
    with temporary_backend("broken", source(ROUNDS_WRONGLY)):
        ran = run(tmp_path, "--backend", "broken", *words)
    assert ran.returncode == 1
    assert "  operators, arithmetic: 1 verified, 1 refused, 1 not verified\n" in ran.stdout
    page = (tmp_path / "out" / "broken.md").read_text()
    assert "| arithmetic | 1 | `x.floor()` | `x.ceil()` |" in page
    found = json.loads((tmp_path / "out" / "broken.json").read_text())
    assert [one["law"] for one in found["findings"]] == []
    (refused,) = [one for one in found["operators"] if one["outcome"] == "skipped"]
    assert refused["reason"] == "it has no floor"
    assert {one["case"].partition(":")[0] for one in found["operators"]} <= set(OPERATORS)
