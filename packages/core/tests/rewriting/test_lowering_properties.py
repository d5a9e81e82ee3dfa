"""Random programs, whose lowerings return the original operator."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings, strategies as st
from packages.core.tests.rewriting.lowered import Net, declared, lower
from torch.nn import functional

#: Functions from a tensor [batch, 4, 6] to a tensor of that shape, by an operator of each.
STEPS = {
    "aten.relu": torch.relu,
    "aten.exp": lambda x: torch.exp(-x.abs()),
    "aten.softmax.int": lambda x: x.softmax(-1),
    "aten.logsumexp": lambda x: x - torch.logsumexp(x, [1], keepdim=True),
    "aten.max.dim": lambda x: x + x.max(2, keepdim=True).values,
    "aten.sort": lambda x: x.sort(1, descending=True)[0],
    "aten.topk": lambda x: x + x.topk(2, -1)[1].sum(-1, keepdim=True),
    "aten.linear": lambda x: functional.linear(x, torch.eye(6)),
    "aten.matmul": lambda x: x @ (x.transpose(1, 2) @ x),
    "aten.scaled_dot_product_attention": lambda x: functional.scaled_dot_product_attention(x, x, x),
    "aten.cat": lambda x: torch.cat([x[:, 2:], x[:, :2]], 1),
    "aten.where": lambda x: torch.where(x > 0, x, x * 2),
    "aten.layer_norm": lambda x: functional.layer_norm(x, (6,)),
    "aten.cumsum": lambda x: x.cumsum(0),
    "aten.sum": lambda x: x - x.sum(dim=(0, 1), keepdim=True),
    "aten.gather": lambda x: x.gather(1, (x > 0).long()),
    "aten.split": lambda x: torch.cat(x.split(3, 2)[::-1], 2),
}

DYNAMIC = ({0: torch.export.Dim("batch", min=2)},)


def identity(ctx, *args, **kwargs):
    return ctx.origin_op(*args, **kwargs)


def shapes(program):
    """Return the sizes of the outputs, with one name for the batch, which lowering renames."""
    batch = str(next(n for n in program.graph.nodes if n.name.startswith("a")).meta["val"].shape[0])
    output = next(iter(reversed(program.graph.nodes)))
    return [
        [str(size).replace(batch, "batch") for size in node.meta["val"].shape]
        for node in output.all_input_nodes
    ]


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(
    steps=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4),
    lowered=st.sets(st.sampled_from(sorted(STEPS)), min_size=1),
    needs_dims=st.booleans(),
    batch=st.integers(2, 4),
)
def test_identity_lowerings_preserve_outputs_and_dynamic_sizes(steps, lowered, needs_dims, batch):
    def model(x):
        for step in steps:
            x = STEPS[step](x)
        return x

    sets = [declared(name, identity) for name in sorted(lowered)]
    if needs_dims:
        sets += [declared(name, identity, needs=("dims",)) for name in sorted(lowered)]
    x = torch.randn(3, 4, 6)
    before, _ = lower(Net(model), (x,), dynamic=DYNAMIC)
    after, report = lower(Net(model), (x,), *sets, dynamic=DYNAMIC)
    assert shapes(after) == shapes(before)
    other = torch.randn(batch, 4, 6)
    torch.testing.assert_close(after.module()(other), model(other))
    assert set(report.fired) >= lowered & set(steps)
    assert not report.not_found
    assert not report.not_served
