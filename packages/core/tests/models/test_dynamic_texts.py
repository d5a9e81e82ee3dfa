"""Dynamic dimensions as text, and the errors for dimensions that cannot be dynamic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import enginebay as eb
from enginebay.errors import InputError, ModelError, ParamsError, UsageError
from enginebay.models.dynamic_option import parse_dynamic
from enginebay.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Deploy = Callable[..., eb.Deployment]

INPUTS = [
    TensorSpec("x", "float32", (2, 3, 8)),
    TensorSpec("mask", "bool", (2, 8)),
    TensorSpec("scale", "float32", ()),
    TensorSpec("table", "float32", (5, 3)),
]


class Sum(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a * 2 + b


@pytest.fixture
def deploy(tmp_path: Path, loopback: str) -> Deploy:
    def deploy(**options: Any) -> eb.Deployment:
        return eb.deploy(
            Sum(),
            (torch.rand(4, 3), torch.rand(4, 3)),
            backend=loopback,
            work_dir=tmp_path / "out",
            verify=eb.VerifyOptions(probes=1),
            **options,
        )

    return deploy


@pytest.mark.parametrize(
    ("texts", "opened"),
    [
        ("batch", {"x": {0: "batch"}, "mask": {0: "batch"}}),
        ("x:2", {"x": {2: True}}),
        ("x:-1=4:16", {"x": {-1: (4, 16)}}),
        (["x:2=width", "mask:1=width:4:16"], {"x": {2: "width"}, "mask": {1: ("width", 4, 16)}}),
        (["batch", "x:2"], {"x": {0: "batch", 2: True}, "mask": {0: "batch"}}),
        (["a.b:c:0"], {"a.b:c": {0: True}}),
    ],
)
def test_dynamic_texts_are_parsed(texts: Any, opened: dict[str, Any]) -> None:
    assert parse_dynamic(texts, INPUTS) == opened


@pytest.mark.parametrize("text", ["x:", ":0", "x:y", "x:0=", "x:0=1", "x:0=1:2:3", "x:0=a b", ""])
def test_invalid_dynamic_texts_are_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_dynamic(text, INPUTS)
    expected = "expected batch, x:0, x:0=1:8 or x:0=batch:1:8"
    assert str(caught.value) == f"invalid dimension '{text}': {expected}"
    assert caught.value.hint == "--dynamic x:0"


@pytest.mark.parametrize(
    "dynamic",
    [
        "n",
        ["a:0=n", "b:0=n"],
        {"a": {0: "n"}, "b": {0: "n"}},
    ],
)
def test_a_name_opens_the_first_dimension_of_the_inputs(deploy: Deploy, dynamic: Any) -> None:
    deployed = deploy(dynamic=dynamic)
    assert [spec.dims for spec in deployed.artifact.inputs] == [("n", 3), ("n", 3)]
    assert "'n' up to" in deployed.verification.extent()


def test_unknown_size_in_input_shapes_opens_the_dimension(deploy: Deploy) -> None:
    both = deploy(params={"input_shapes": "a:?x3,b:-1x3"})
    assert [spec.dims for spec in both.artifact.inputs] == [("a_0", 3), ("a_0", 3)]


@pytest.mark.parametrize(
    ("dynamic", "flag"),
    [("a:0", "--dynamic b:0=a_0"), (["a:0", "b:0"], "--dynamic a:0=b_0")],
)
def test_opening_only_some_equal_sizes_is_refused(deploy: Deploy, dynamic: Any, flag: str) -> None:
    with pytest.raises(ModelError) as caught:
        deploy(dynamic=dynamic)
    assert str(caught.value) == (
        "the dimension 'a_0' is dynamic, but the model fails at the sizes 3 and 8, and runs only "
        "at the example's size 4"
    )
    assert caught.value.hint == f"make dimensions of the same size dynamic under one name: {flag}"


def test_hint_names_the_input_of_the_same_size(deploy: Deploy) -> None:
    with pytest.raises(ModelError, match="at the sizes a:8x3,b:4x3, ") as caught:
        deploy(dynamic={"a": {0: (4, 8)}})
    assert caught.value.hint == (
        "make dimensions of the same size dynamic under one name: --dynamic b:0=a_0"
    )


@pytest.mark.parametrize(
    ("inputs", "hint"),
    [
        (INPUTS, "--dynamic x:1=length --dynamic mask:1=length --dynamic table:1=length"),
        ([], "--dynamic INPUT:1=length"),
    ],
)
def test_second_name_alone_is_refused(inputs: list[TensorSpec], hint: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_dynamic(["batch", "length"], inputs)
    assert str(caught.value) == ("'batch' and 'length' both name the first axis of every input")
    assert caught.value.hint == f"name another axis: {hint}"
    assert parse_dynamic(["batch", "batch"], INPUTS) == parse_dynamic("batch", INPUTS)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        (
            {"dynamic": True},
            InputError,
            "invalid 'dynamic': expected the dynamic axes of each input, found True",
        ),
        ({"dynamic": "c:0"}, InputError, "dynamic: unknown input 'c'; available: a, b"),
        (
            {"params": {"input_shapes": "a:2x3,b:4x3"}},
            ParamsError,
            "input 'a': the example has the shape 4x3, but 'input_shapes' has 2x3",
        ),
        (
            {"dynamic": "batch", "params": {"min_shapes": "a:1x3,b:1x3"}},
            UsageError,
            "'dynamic' cannot be combined with 'min_shapes' or 'max_shapes'",
        ),
    ],
)
def test_contradictory_dynamic_options_are_refused(
    deploy: Deploy, options: Any, kind: Any, message: str
) -> None:
    with pytest.raises(kind) as caught:
        deploy(**options)
    assert str(caught.value) == message
