"""A recorded graph becomes the program that ``torch.export`` would make of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from enginebay.ir import quiet
from enginebay.rewriting.lowering.exported_program import build_program
from enginebay.rewriting.lowering.torchscript_capture import script_graph


class Model(torch.nn.Module):
    """Has a weight and a constant, an input that is an output, and tensors that it writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x: Any, y: Any) -> Any:
        total = torch.zeros(2, 4)
        total[:, 1:] = x[:, 1:]
        weight = self.linear.weight
        return self.linear(x) * self.scale + total, weight.t() @ y.t(), weight * 2, y


INPUTS = (torch.randn(2, 4), torch.randn(2, 4))


@pytest.fixture(params=[False, True], ids=["with weights", "frozen"])
def script(request: pytest.FixtureRequest) -> Any:
    trace: Any = torch.jit.trace
    with quiet():
        found = trace(Model().eval(), INPUTS, check_trace=False)
        return torch.jit.freeze(found) if request.param else found


def test_is_what_torch_export_makes(script: Any) -> None:
    with torch.no_grad():
        mine = build_program(script_graph(script, INPUTS), INPUTS)
        own = torch.export.export(script_graph(script, INPUTS), INPUTS)
    for _ in range(2):
        assert str(mine.graph) == str(own.graph)
        assert mine.graph_signature == own.graph_signature
        assert mine.call_spec == own.call_spec
        assert mine.verifiers == own.verifiers
        assert {name: type(each) for name, each in mine.state_dict.items()} == {
            name: type(each) for name, each in own.state_dict.items()
        }
        with quiet():
            mine, own = mine.run_decompositions(), own.run_decompositions()


def test_computes_the_same(script: Any) -> None:
    with torch.no_grad():
        program = build_program(script_graph(script, INPUTS), INPUTS)
    others = (torch.randn(2, 4), torch.randn(2, 4))
    for found, wanted in zip(program.module()(*others), script(*others), strict=True):
        torch.testing.assert_close(found, wanted)
