"""Rewriters of objects without names; the same rewriter twice; rewriters that raise."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import RewriterError

X = torch.tensor([-1.0, 2.0])


def make_model() -> tuple[type[nn.Module], nn.Module]:
    """Return a class as a notebook has it, whose name leads nowhere, and a model with it."""

    class Block(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    return Block, nn.Sequential(Block(), nn.ReLU())


def add_100(ctx, self, x):
    return ctx.origin_func(self, x) + 100


def test_a_local_class_is_replaced():
    block, model = make_model()
    rewriters = eb.RewriterSet()

    @rewriters.module(block)
    class Replacement(nn.Module):
        def __init__(self, ctx, module):
            super().__init__()

        def forward(self, x):
            return x + 10

    with eb.rewrite(model, backend=None, rewriters=[rewriters]) as rewriting:
        assert rewriting.model(X).tolist() == [9, 12]
    assert rewriting.report.fired == {f"{__name__}.make_model.<locals>.Block": 1}
    assert model(X).tolist() == [0, 3]
    other = make_model()[1]  # another class of the same name
    with eb.rewrite(other, backend=None, rewriters=[rewriters]) as rewriting:
        assert rewriting.model(X).tolist() == [0, 3]


def test_a_local_function_and_a_method_are_replaced_wherever_they_are_called():
    block, model = make_model()

    def double(x):
        return 2 * x

    alias = double
    rewriters = eb.RewriterSet()
    rewriters.function(double)(lambda ctx, x: ctx.origin_func(x) + 1)
    rewriters.function(block.forward)(add_100)
    with eb.rewrite(model, backend=None, rewriters=[rewriters]) as rewriting:
        assert alias(3) == 7
        assert model(X).tolist() == [100, 103]
    assert alias(3) == 6
    assert model(X).tolist() == [0, 3]
    assert sum(rewriting.report.fired.values()) == 2


@pytest.mark.parametrize(
    ("function", "name", "call"),
    [
        (torch.relu, "torch.relu", torch.relu),
        (torch.Tensor.neg, "torch.Tensor.neg", lambda x: x.neg()),
        (nn.functional.gelu, "torch.nn.functional.gelu", nn.functional.gelu),
    ],
)
def test_a_function_of_torch_is_replaced(function, name, call):
    rewriters = eb.RewriterSet()
    rewriters.function(function)(lambda ctx, x: ctx.origin_func(x) + 100)
    with eb.rewrite(backend=None, rewriters=[rewriters]) as rewriting:
        found = call(X)
    torch.testing.assert_close(found, call(X) + 100)
    assert rewriting.report.fired == {name: 1}


@pytest.mark.parametrize(
    ("kind", "given", "found"),
    [
        ("function", math.erf, "a builtin_function_or_method"),
        ("function", nn.Linear, "a type"),
        ("function", [torch.relu], "a list"),
        ("module", nn.Linear(1, 1), "a Linear"),
        ("module", int, "a type"),
        ("module", torch.relu, "a builtin_function_or_method"),
        ("symbolic", make_model, "a function"),
        ("lowering", make_model, "a function"),
    ],
)
def test_other_objects_are_refused(kind, given, found):
    with pytest.raises(RewriterError) as caught:
        getattr(eb.RewriterSet(), kind)(given)
    assert str(caught.value) == (
        f"@rewriters.{kind} expected the name of the object to rewrite, found {found}"
    )


def declare(rewriters, value, **conditions):
    @rewriters.function("torch.relu", **conditions)
    def constant(ctx, x):
        return x * 0 + value

    return constant


def test_a_rewriter_that_is_declared_again_is_one():
    rewriters = eb.RewriterSet()
    declare(rewriters, 1)
    declare(rewriters, 2)  # the cell, changed and run again
    assert len(rewriters) == 1
    with eb.rewrite(backend=None, rewriters=[rewriters, rewriters]) as rewriting:
        assert torch.relu(X).tolist() == [2, 2]
    assert rewriting.report.fired == {"torch.relu": 1}
    assert not [each for each in rewriting.report.lost if each.distribution is None]
    declare(rewriters, 3, ir="onnx")
    assert len(rewriters) == 2


def test_two_rewriters_without_names_are_two():
    rewriters = eb.RewriterSet()
    rewriters.function("torch.relu")(lambda ctx, x: x)
    rewriters.function("torch.relu")(lambda ctx, x: -x)
    with (
        pytest.raises(RewriterError, match="two equally specific"),
        eb.rewrite(backend=None, rewriters=[rewriters]),
    ):
        pass


def raise_error(*arguments, **options):
    raise KeyError("inner")


class Raising(nn.Module):
    def __init__(self, ctx, module):
        super().__init__()
        raise_error()


@pytest.mark.parametrize("name", ["torch.relu", "torch.nn.functional.silu", "torch.nn.ReLU"])
def test_an_error_of_a_rewriter_names_its_target(name):
    rewriters = eb.RewriterSet()
    kind = "module" if name == "torch.nn.ReLU" else "function"
    getattr(rewriters, kind)(name)(Raising if kind == "module" else raise_error)
    model = nn.Sequential(nn.ReLU(), nn.SiLU())
    note = f'in the {kind} rewriter of "{name}"'
    with (
        pytest.raises(KeyError) as caught,
        eb.rewrite(model, backend=None, rewriters=[rewriters]) as rewriting,
    ):
        nn.functional.silu(torch.relu(rewriting.model(X)))
    assert caught.value.__notes__ == [note]
    with pytest.raises(eb.EnginebayError) as failed:
        eb.export(
            model,
            X,
            options=eb.ExportOptions(rewriters=[rewriters], exporter="torchscript"),
        )
    assert f"rewriting/test_subjects.py:{raise_error.__code__.co_firstlineno + 1}, {note})" in str(
        failed.value
    )
