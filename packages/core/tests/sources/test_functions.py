"""Plain functions as models, and functions that build one."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from packages.core.tests.exports import export
from torch import nn

from enginebay.errors import ModelError, ModelSourceError
from enginebay.models import bind
from enginebay.sources import find_model

linear = nn.Linear(3, 4)
scale = nn.Parameter(torch.full((4,), 2.0))
X = torch.arange(6.0).reshape(2, 3)


def around(x, shift):
    """Use a module and a parameter of this file."""
    return linear(x) * scale + shift


def alone(x, factor=2):
    return {"scaled": x * factor}


@torch.no_grad()
def decorated(x):
    return linear(x)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.dropout = nn.Dropout(0.5)

    def encode(self, x):
        return self.dropout(self.linear(x))


class Pipeline:
    """A callable object that contains a module."""

    def __init__(self) -> None:
        self.encoder = Encoder()

    def __call__(self, x):
        return self.encoder.encode(x) + 1


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
@pytest.mark.parametrize(
    ("function", "given", "inputs", "weights"),
    [
        (around, (X, torch.ones(2, 4)), ["x", "shift"], 3),
        (alone, X, ["x"], 0),
        (decorated, X, ["x"], 2),
        (Encoder().encode, X, ["x"], 2),
        (Pipeline(), X, ["x"], 2),
        (partial(around, shift=1.0), X, ["x"], 3),
        (torch.compile(alone, backend="eager"), X, ["x"], 0),
        (lambda x: x + 1, X, ["x"], 0),
    ],
)
@pytest.mark.one_in(2)
def test_a_function_that_takes_arguments_is_the_model(
    function: Any, given: Any, inputs: list[str], weights: int, exporter: Any, tmp_path
) -> None:
    bound = bind(find_model(function), given)
    assert [spec.name for spec in bound.inputs] == inputs
    assert len(list(bound.source.module.parameters())) == weights
    written = export(function, given, path=tmp_path / "f.onnx", exporter=exporter)
    assert [spec.name for spec in written.inputs] == inputs


def test_a_function_without_arguments_builds_the_model() -> None:
    assert find_model(lambda: linear).module is linear
    assert find_model(lambda bias=True: nn.Linear(3, 3, bias=bias)).module.bias is not None


def test_tuple_with_inputs_makes_the_function_the_model() -> None:
    def optional(x=None):
        return torch.ones(1) if x is None else x + 1

    bound = bind(find_model((optional, X)))
    assert bound.run({})["output"].tolist() == (X + 1).tolist()
    assert bind(find_model(lambda: (optional, X))).source.name == "optional"
    with pytest.raises(ModelSourceError) as caught:
        find_model(optional)
    assert "is or returns an object of type Tensor" in str(caught.value)
    assert caught.value.hint == (
        "a function without arguments is called to get the model; to use a function itself as the "
        "model, pass a tuple (function, inputs)"
    )


def test_failed_factory_call_hints_at_tuple_with_inputs() -> None:
    def optional(x=None):
        return x + 1

    with pytest.raises(ModelSourceError, match="raised TypeError") as caught:
        find_model(optional)
    assert caught.value.hint == (
        "the function was called to get the model; to use a function itself as the model, pass a "
        "tuple (function, inputs)"
    )


def test_function_model_without_inputs_is_refused() -> None:
    def either(x, mask=None):
        return x

    with pytest.raises(ModelSourceError) as caught:
        bind(find_model(either))
    assert str(caught.value) == (
        "'the function either' cannot be called without arguments; required arguments: x"
    )
    assert caught.value.hint == (
        "pass the name of a function that takes no arguments and returns the model; if the "
        "function is the model itself, pass --input x=1x3x224x224"
    )


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (lambda x: linear, "returned no tensor; it returned a Linear"),
        (lambda width: nn.Linear(3, width), "forward raised TypeError"),
    ],
)
def test_factory_with_an_argument_is_refused_as_model(factory, message) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        bind(find_model(factory), X)
    assert caught.value.hint == (
        "a function with arguments is used as the model; pass the name of a function that takes no "
        "arguments and returns the model"
    )


def test_modules_in_a_function_return_to_training_mode() -> None:
    pipeline = Pipeline()
    bound = bind(find_model(pipeline), X)
    assert bound.run({})["output"].tolist() == bound.run({})["output"].tolist()
    assert pipeline.encoder.training
