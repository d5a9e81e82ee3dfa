"""Values that no input changes are computed when a program is lowered."""

from __future__ import annotations

import pytest
import torch
from packages.core.tests.rewriting.lowered import Net, declared, lower, targets
from torch import nn

OPERATORS = {"aten.mul", "aten.add", "aten.full", "aten.mm"}
X = torch.arange(6.0).reshape(2, 3)


def run(function, *, expected, **weights):
    model = Net(function, **weights)
    program, _ = lower(model, (X,), operators=OPERATORS)
    assert targets(program) == expected
    torch.testing.assert_close(program.module()(X), model(X), rtol=0, atol=0)
    return program


def test_an_engine_needs_no_operators_for_constants():
    angles = torch.tensor([1.0, 2.0, 3.0])
    program = run(
        lambda x, table: x * (torch.arange(3) / 2).cos() + table.flip(0) * angles.sin(),
        expected=["aten.mul.Tensor", "aten.add.Tensor"],
        table=torch.tensor([4.0, 5.0, 6.0]),
    )
    assert len(program.graph_signature.inputs_to_lifted_tensor_constants) == 3


def test_tensors_that_an_engine_can_fill_are_not_folded():
    run(lambda x: x + torch.full((1000, 3), 2.0)[:2], expected=["aten.add.Tensor"])
    run(lambda x: x + torch.full((2, 3), 2.0), expected=["aten.full.default", "aten.add.Tensor"])


def test_constant_output_keeps_its_value():
    program, _ = lower(lambda x: (x + 1, torch.arange(3)), (X,), operators=OPERATORS)
    assert program.module()(X)[1].tolist() == [0, 1, 2]


def test_random_numbers_are_not_constants():
    program, _ = lower(lambda x: x + torch.rand(3), (X,), operators={*OPERATORS, "aten.rand"})
    assert targets(program) == ["aten.rand.default", "aten.add.Tensor"]
    assert not program.module()(X).equal(program.module()(X))


def test_lowering_may_use_constant_tensors_of_its_own():
    from enginebay.rewriting import RewriterSet

    rewriters = RewriterSet()

    @rewriters.lowering("aten.relu")
    def lowered(ctx, x):
        return x * torch.ops.aten.lift_fresh_copy(real)

    real = torch.tensor([0.0, 1.0, 2.0])
    program, _ = lower(lambda x: x.relu(), (X,), rewriters)
    assert program.module()(X).tolist() == [[0, 1, 4], [0, 4, 10]]


class PlusConstant(nn.Module):
    """Adds a constant of the code, which torch.export puts among the tensors of this module."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return self.weight * x + torch.erfinv(torch.tensor(0.5))


def test_constants_keep_their_values_when_torch_reorders_them():
    later = Net(lambda x, scale: x * scale, scale=torch.tensor(0.25))
    values = []

    def lowering(ctx, x):
        values.append(ctx.value_of(x).item())
        return ctx.origin_op(x)

    lower(nn.Sequential(PlusConstant(), later), (X,), declared("aten.erfinv", lowering))
    assert values == [0.5]


@pytest.mark.parametrize(
    ("operator", "function", "fired"),
    [
        ("aten.square", lambda x, w: x * w.square(), False),  # computed
        ("aten.square", lambda x, w: x * (x * w).square(), True),
        ("aten.bernoulli", lambda x, w: x * w.bernoulli(), True),  # different at each call
        ("aten.outer", lambda x, w: x @ w.outer(w), True),  # larger than its inputs
    ],
)
def test_missing_operators_are_computed_only_for_constants(operator, function, fired):
    calls = []

    def lowering(ctx, x, *others):
        calls.append(x)
        return ctx.origin_op(x, *others)

    rewriters = declared(operator, lowering, needs=("lacking",))
    model = Net(function, w=torch.rand(3))
    lower(model, (X,), rewriters, lacking={operator})
    assert bool(calls) is fired
