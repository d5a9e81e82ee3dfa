"""``lab.sensitivity``: the error of each layer, if only this layer computes in 8 bits."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import torch
from torch import nn

import enginebay as eb
import enginebay_lab as lab
from enginebay.errors import ParamsError, UsageError
from enginebay_lab.diagnosis.rank_layers import NodeSensitivity, Sensitivity, check_precision

if TYPE_CHECKING:
    from packages.lab.tests.diagnosis.conftest import Layered


def rank(layered: Layered, **given: Any) -> Sensitivity:
    options = {**layered.options, "data": layered.data, **given}
    return lab.sensitivity(layered.model, layered.example, **options)


@pytest.fixture(scope="module")
def ranked(layered: Layered) -> Sensitivity:
    """The ranking of all layers."""
    return rank(layered)


def test_the_layer_with_the_outlier_comes_first(ranked: Sensitivity, layered: Layered) -> None:
    first, second, third = layered.nodes
    assert [each.node for each in ranked.nodes] == [second, third, first]
    levels = [each.decibels for each in ranked.nodes]
    assert levels[0] < 25 < 35 < levels[1] < levels[2]
    assert {each.operator for each in ranked.nodes} == {"Gemm"}
    assert {each.failure for each in ranked.nodes} == {""}
    assert (ranked.backend, ranked.precision, ranked.items) == ("eightbits", "int8", 16)


def test_each_layer_is_measured_alone(ranked: Sensitivity, layered: Layered) -> None:
    model = nn.Sequential(*layered.model)
    weight = model[2].weight.detach()
    step = weight.abs().max() / 127
    inputs = torch.cat([torch.from_numpy(item["input"]) for item in layered.data])
    with torch.no_grad():
        expected = model(inputs).double()
        hidden = model[1](model[0](inputs)) @ ((weight / step).round() * step).T + model[2].bias
        noise = (model[4](model[3](hidden)).double() - expected).square().sum()
        power = (expected - expected.mean()).square().sum()
    assert ranked.nodes[0].decibels == pytest.approx(10 * torch.log10(power / noise).item(), 1e-3)


def test_a_ranking_prints_a_table_and_what_to_do(ranked: Sensitivity) -> None:
    header, *rows = str(ranked).splitlines()
    assert header.split() == ["NODE", "OPERATOR", "DB"]
    assert all(re.fullmatch(r"/model/model\.\d/Gemm +Gemm +\d\d\.\d", row) for row in rows[:3])
    assert rows[3] == (
        "note  DB is the signal-to-noise ratio with only this node in int8, on 16 items; "
        "--int8-keep NODE leaves a node in floating point, and enginebay quantize chooses such "
        "nodes"
    )
    assert repr(ranked) == "<Sensitivity of 3 nodes on eightbits, int8>"


def test_a_ranking_is_a_document(ranked: Sensitivity) -> None:
    document = json.loads(json.dumps(ranked.to_dict()))
    assert (document["kind"], document["schema"], document["items"]) == ("sensitivity", 1, 16)
    assert document["nodes"][0].keys() == {"node", "operator", "decibels", "failure"}
    assert msgspec.convert(msgspec.to_builtins(ranked), Sensitivity) == ranked


def test_kept_layers_are_not_measured(layered: Layered) -> None:
    first, second, third = layered.nodes
    found = rank(layered, int8_keep=[second, third])
    assert [each.node for each in found.nodes] == [first]


@pytest.mark.parametrize(
    ("fault", "failure"),
    [
        (
            "crashes",
            (
                "the converted files cannot be loaded: the engine of backend 'eightbits' ended "
                "with exit code 9 before it returned"
            ),
        ),
        ("spoils", '"output" on item 0 at [0, 0]: expected '),
    ],
)
def test_a_layer_that_breaks_the_engine_comes_first_with_its_reason(
    layered: Layered, fault: str, failure: str
) -> None:
    first, second, third = layered.nodes
    steps = []
    found = rank(
        layered,
        params={"precision": "int8", fault: third},
        int8_keep=[first],
        watch=lambda step: steps.append((step.name, step.detail)),
    )
    broken, other = found.nodes
    assert (broken.node, broken.decibels, other.node) == (third, None, second)
    assert broken.failure.startswith(failure)
    assert other.decibels is not None
    lines = str(found).splitlines()
    assert lines[1].split() == [third, "Gemm", "failed"]
    assert lines[3].startswith(f"failed  {third}: {failure}")
    assert ("rank", f"2 of 2: {third}") in steps
    assert steps[-1] == ("rank", "2 nodes, one by one")


def test_a_layer_without_an_error_comes_last() -> None:
    nodes = (
        NodeSensitivity("loud", "Conv", 3.25),
        NodeSensitivity("silent", "Conv", None),
    )
    found = Sensitivity(backend="any", precision="fp8", items=1, nodes=nodes)
    assert [line.split()[-1] for line in str(found).splitlines()[1:3]] == ["3.2", "-"]


def test_no_layer_is_left_to_measure(layered: Layered) -> None:
    message = r"^the network has no node that can compute in 8 bits$"
    with pytest.raises(UsageError, match=message):
        rank(layered, params={"precision": "int8", "nothing": True})
    with pytest.raises(eb.EnginebayError) as raised:
        rank(layered, int8_keep=["nowhere"])
    assert "nowhere" in str(raised.value)


def test_a_precision_without_8_bits_is_refused_before_anything_is_deployed(
    layered: Layered, loopback: str
) -> None:
    with pytest.raises(UsageError) as raised:
        rank(layered, params={"precision": "fp32"})
    message = "sensitivity measures layers in 8 bits, but precision fp32 has no 8-bit layers"
    assert (str(raised.value), raised.value.hint) == (message, "--precision int8")
    with pytest.raises(UsageError) as raised:
        rank(layered, backend=loopback, params={})
    assert (str(raised.value), raised.value.hint) == (message, None)


def test_missing_data_is_refused(layered: Layered) -> None:
    with pytest.raises(ParamsError, match=r"^precision int8 requires calibration data\n?"):
        rank(layered, data=None)


def test_the_precision_may_be_given_by_itself(eightbits: str) -> None:
    purpose = "this requires 8 bits"
    engine, params = check_precision(eightbits, {"precision": "fp32"}, "int8", purpose)
    assert (engine.name, params.precision) == (eightbits, "int8")  # type: ignore[attr-defined]  # the backend's own
    with pytest.raises(UsageError, match=r"^this requires 8 bits, but precision fp32 "):
        check_precision(eightbits, {"precision": "int8"}, "fp32", purpose)
