"""A recorded graph becomes the program that ``torch.export`` would build from that graph."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from enginebay.ir import quiet
from enginebay.rewriting.lowering.exported_program import build_program
from enginebay.rewriting.lowering.torchscript_capture import script_graph


class Model(torch.nn.Module):
    """Has a weight and a constant, returns an input, and writes to tensors."""

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
        traced = trace(Model().eval(), INPUTS, check_trace=False)
        return torch.jit.freeze(traced) if request.param else traced


def test_built_program_equals_that_of_torch_export(script: Any) -> None:
    with torch.no_grad():
        built = build_program(script_graph(script, INPUTS), INPUTS)
        exported = torch.export.export(script_graph(script, INPUTS), INPUTS)
    for _ in range(2):
        assert str(built.graph) == str(exported.graph)
        assert built.graph_signature == exported.graph_signature
        assert built.call_spec == exported.call_spec
        assert built.verifiers == exported.verifiers
        assert {name: type(each) for name, each in built.state_dict.items()} == {
            name: type(each) for name, each in exported.state_dict.items()
        }
        with quiet():
            built, exported = built.run_decompositions(), exported.run_decompositions()


def test_built_program_computes_the_same_as_the_script(script: Any) -> None:
    with torch.no_grad():
        program = build_program(script_graph(script, INPUTS), INPUTS)
    others = (torch.randn(2, 4), torch.randn(2, 4))
    for result, expected in zip(program.module()(*others), script(*others), strict=True):
        torch.testing.assert_close(result, expected)
