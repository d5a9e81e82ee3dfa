"""A size may be the sum of others: the mask of a decoder's step covers the past and the tokens."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import torch
from torch import Tensor, nn

import enginebay as eb
from enginebay.config import dynamic_shapes
from enginebay.config.sections import IRSection
from enginebay.errors import InputError
from enginebay.models import bind, file_dimensions, shapes_at, size_levels
from enginebay.params import BackendParams, DynamicDim, ShapeProfile
from enginebay.sources import find_model
from enginebay.tensors import TensorSpec

if TYPE_CHECKING:
    from pathlib import Path

DYNAMIC = ["ids:1=tokens", "keys:1=past:1:40", "mask:1=past+tokens"]


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(30, 8), nn.Linear(8, 30)

    def forward(self, ids: Tensor, mask: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.table(ids)
        known = torch.cat([keys, hidden], 1)
        scores = (hidden @ known.transpose(1, 2)).masked_fill(mask[:, None] == 0, -1e9)
        return self.head(scores.softmax(-1) @ known), known


def example(tokens: int = 3, past: int = 5, mask: int = 0) -> dict[str, Tensor]:
    return {
        "ids": torch.randint(0, 30, (1, tokens)),
        "mask": torch.ones(1, mask or past + tokens, dtype=torch.int64),
        "keys": torch.randn(1, past, 8),
    }


def test_the_range_of_a_sum_follows_from_its_terms() -> None:
    dynamic = ["ids:1=tokens", "keys:1=past:2:40", "mask:1=past+tokens"]
    bound = bind(find_model(Step()), example(), dynamic=dynamic)
    assert bound.dynamic["mask"][1] == DynamicDim("past+tokens", 3)
    closed = bind(find_model(Step()), example(), dynamic=["keys:1=past:2:40", "mask:1=past+3"])
    assert closed.dynamic["mask"][1] == DynamicDim("past+3", 5, 43)
    assert closed.profiles["mask"].max == (1, 43)


def test_a_sum_is_no_size_of_its_own() -> None:
    bound = bind(find_model(Step()), example(), dynamic=DYNAMIC)
    shapes = bound.example_shapes
    assert {*size_levels(bound.dynamic, shapes)} == {"tokens", "past"}
    assert shapes_at(bound.dynamic, shapes, {"past": 7})["mask"] == (1, 10)


WRONG: list[tuple[list[str], str]] = [
    (["ids:1=tokens", "mask:1=past+tokens"], "there is no dimension 'past'"),
    ([*DYNAMIC[:2], "mask:1=past+tokens:2:9"], "has a range, but its size is a sum"),
    (
        [*DYNAMIC[:2], "mask:1=past+tokens+1"],
        "but the sum of its terms is 9",
    ),
    ([*DYNAMIC[:2], "mask:1=past+"], "invalid dimension 'mask:1=past+'"),
]


@pytest.mark.parametrize(("dynamic", "text"), WRONG, ids=["unknown", "range", "example", "form"])
def test_a_wrong_sum_is_refused(dynamic: list[str], text: str) -> None:
    with pytest.raises(InputError, match=re.escape(text)):
        bind(find_model(Step()), example(), dynamic=dynamic)


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_probes_and_calls_keep_the_sum(exporter: str, tmp_path: Path, loopback: str) -> None:
    deployed = eb.deploy(
        Step().eval(),
        example(),
        backend=loopback,
        work_dir=tmp_path / "out",
        dynamic=DYNAMIC,
        export={"exporter": exporter},
    )
    assert deployed.verdict == "verified"
    assert not [text for text in deployed.verification.basis.dropped if "size" in text]
    assert deployed.artifact.inputs[1].dims == (1, "past+tokens")
    model = eb.load(deployed.artifact)
    good = {name: tensor.numpy() for name, tensor in example(tokens=2, past=9).items()}
    assert model(good)["output_1"].shape == (1, 11, 8)
    bad = {name: tensor.numpy() for name, tensor in example(tokens=2, past=9, mask=12).items()}
    with pytest.raises(InputError, match="but the sum of the others is 11"):
        model(bad)


def record(calls: list[tuple[int, int]]) -> Any:
    model = Step().eval()
    with eb.record(model) as seen:
        for tokens, past in calls:
            model(**example(tokens, past))
    return bind(find_model(model), seen).dynamic


def test_recorded_calls_show_sums() -> None:
    steps = record([(1, past) for past in range(5, 11)])
    assert steps["mask"][1].name == f"{steps['keys'][1].name}+1"
    both = record([(3, 4), (1, 7), (2, 9), (5, 1)])
    assert {*both["mask"][1].name.split("+")} == {both["ids"][1].name, both["keys"][1].name}


def test_few_calls_show_no_sum() -> None:
    assert "+" not in record([(3, 4), (1, 7)])["mask"][1].name


def test_a_config_may_name_a_sum() -> None:
    sections = {"onnx_config": {"dynamic_axes": {"mask": {1: "past + tokens"}, "x": {0: "a * b"}}}}
    ir = msgspec.convert(sections["onnx_config"], IRSection)
    found = dynamic_shapes(ir, BackendParams())
    assert found is not None
    assert [dim.name for axes in found.values() for dim in axes.values()] == ["past+tokens", "a_b"]


def test_a_file_may_name_a_sum() -> None:
    specs = [
        TensorSpec("ids", "int64", ("batch size", 1)),
        TensorSpec("mask", "int64", ("batch size", "past length + 1")),
        TensorSpec("keys", "float32", ("batch size", "past length", 8)),
        TensorSpec("rest", "float32", ("batch size", "unknown + 1")),
    ]
    shapes = {"ids": (2, 1), "mask": (2, 6), "keys": (2, 5, 8), "rest": (2, 4)}
    profiles = {name: ShapeProfile(shape, shape, shape) for name, shape in shapes.items()}
    opened = file_dimensions(specs, profiles)
    assert opened["mask"][1].name == "past_length+1"
    assert 1 not in opened["rest"]
    assert opened["keys"][1].name == "past_length"
