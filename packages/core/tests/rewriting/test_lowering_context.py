from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from packages.core.tests.rewriting.lowered import Net, declared, lower
from torch.nn import functional

X = torch.rand(2, 3)
TABLE = torch.arange(6.0).reshape(2, 3)


def facts(function, name, look, *, dynamic=None, args=(X,), **weights):
    """Return what ``look`` reads in a lowering that leaves the graph unchanged."""
    results = []

    def lowering(ctx, *args, **kwargs):
        results.append(look(ctx, *args, **kwargs))
        return ctx.origin_op(*args, **kwargs)

    lower(Net(function, **weights), args, declared(name, lowering), dynamic=dynamic)
    return results[0]


CONSTANTS = {
    "a weight": (lambda x, weight: x * weight, TABLE),
    "a view of a weight": (lambda x, weight: x * weight.reshape(3, 2).T, TABLE.reshape(3, 2).T),
    "computed from a weight": (lambda x, weight: x * (weight.exp() + 1), TABLE.exp() + 1),
    "made in the model": (lambda x, weight: x * torch.arange(3.0), torch.arange(3.0)),
    "a literal": (lambda x, weight: x * torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 2, 3])),
}


@pytest.mark.parametrize("kind", CONSTANTS)
def test_weights_and_values_computed_from_them_are_constants(kind):
    function, expected = CONSTANTS[kind]

    def look(ctx, x, y):
        assert not ctx.is_constant(x)
        assert ctx.is_constant(3)
        return ctx.value_of(y) if ctx.is_constant(y) else None

    value = facts(function, "aten.mul", look, weight=TABLE)
    np.testing.assert_allclose(value, expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * (x + 1),
        lambda x: x * (x.new_zeros(3) + x.amax()),
        lambda x: x * torch.rand(3),
        lambda x: x * torch.randn(3).exp(),
        lambda x: x * torch.bernoulli(torch.full((3,), 0.5)),
    ],
)
def test_inputs_and_random_numbers_are_not_constants(function):
    assert facts(function, "aten.mul", lambda ctx, x, y: ctx.is_constant(y)) is False


@pytest.mark.slow
def test_graph_deeper_than_the_recursion_limit_is_lowered():
    depth = sys.getrecursionlimit()

    def function(x, weight):
        for _ in range(depth):
            x, weight = x + 1, weight + 1
        return x * weight

    is_constant, value = facts(
        function,
        "aten.mul",
        lambda ctx, x, y: (ctx.is_constant(x), ctx.value_of(y)),
        weight=TABLE,
    )
    assert is_constant is False
    np.testing.assert_array_equal(value, TABLE.numpy() + depth)


def test_buffer_that_the_model_changes_is_not_constant():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.ones(3))

        def forward(self, x):
            self.count.add_(1)
            return x * self.count

    results = []

    def look(ctx, x, y):
        results.append(ctx.is_constant(y))
        return ctx.origin_op(x, y)

    lower(Counter(), (X,), declared("aten.mul", look))
    assert results == [False]


def test_bfloat16_is_read_as_float32():
    value = facts(
        lambda x, weight: x * weight,
        "aten.mul",
        lambda ctx, x, y: ctx.value_of(y),
        weight=TABLE.bfloat16(),
    )
    assert value.dtype == np.float32
    np.testing.assert_array_equal(value, TABLE.numpy())


def test_value_of_returns_a_copy():
    weight = TABLE.clone()

    def spoil(ctx, x, y):
        ctx.value_of(y)[:] = 0

    facts(lambda x, weight: x * weight, "aten.mul", spoil, weight=weight)
    assert torch.equal(weight, TABLE)


def test_context_reports_sizes_dtypes_backend_and_ir():
    dynamic = ({0: torch.export.Dim("batch", min=2)},)

    def look(ctx, x, *args):
        dtypes = [ctx.dtype_of(each) for each in (x, 2, 0.5, True)]
        return ctx.sizes_of(x), dtypes, ctx.backend, ctx.ir

    sizes, dtypes, backend, ir = facts(
        lambda x: (x > 0).sum(1), "aten.sum.dim_IntList", look, dynamic=dynamic
    )
    assert sizes == (None, 3)
    assert dtypes == [torch.bool, torch.int64, torch.float32, torch.bool]
    assert (backend, ir) == ("any", "exported_program")


def test_lowerings_of_composite_operators_can_read_constants():
    def look(ctx, x, weight, bias=None):
        return ctx.is_constant(x), ctx.value_of(weight), ctx.value_of(bias)

    is_constant, weight, bias = facts(
        lambda x, weight, bias: functional.linear(x.exp(), weight * 2, bias),
        "aten.linear",
        look,
        weight=TABLE,
        bias=torch.ones(2),
    )
    assert is_constant is False
    np.testing.assert_array_equal(weight, TABLE.numpy() * 2)
    np.testing.assert_array_equal(bias, np.ones(2))


def test_attention_is_lowered_as_a_single_operator():
    query = torch.rand(1, 2, 4, 8)
    value = facts(
        lambda x, mask: functional.scaled_dot_product_attention(x, x, x, mask),
        "aten.scaled_dot_product_attention",
        lambda ctx, q, k, v, mask: (ctx.sizes_of(q), ctx.is_constant(q), ctx.is_constant(mask)),
        args=(query,),
        mask=torch.zeros(4, 4),
    )
    assert value == ((1, 2, 4, 8), False, True)
