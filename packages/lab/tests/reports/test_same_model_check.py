"""Artifacts of one model are accepted whatever their engines do; another model is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from enginebay import TensorSpec
from enginebay.authors.arrays import Sample
from enginebay.errors import UsageError
from enginebay_lab.reports.same_model_check import SameModelCheck


class Manifest:
    """The fields of a manifest that the check reads."""

    def __init__(self, inputs: Any, outputs: Any) -> None:
        self.inputs = tuple(TensorSpec(*spec) for spec in inputs)
        self.outputs = tuple(TensorSpec(*spec) for spec in outputs)


X, Y = ("x", "float32", (1, 4)), ("y", "float32", (1, 3))


class Artifact:
    """The fields of an artifact that the check reads."""

    def __init__(self, path: str, *samples: tuple[Any, Any], inputs: Any = (X,)) -> None:
        self.path, self.manifest = path, Manifest(inputs, (Y,))
        self._samples = [
            Sample(inputs={"x": np.asarray(x)}, outputs={"y": np.asarray(y)}) for x, y in samples
        ]

    def samples(self) -> list[Sample]:
        return self._samples


def check(*artifacts: Any) -> str:
    """Return the difference that the check names; empty if all are of one model."""
    checked = SameModelCheck()
    try:
        for artifact in artifacts:
            checked.check_artifact(artifact)
    except UsageError as err:
        return str(err)
    return ""


def manifests(first: Any, second: Any) -> str:
    checked = SameModelCheck()
    checked.check_manifest("/a", Manifest(*first))  # type: ignore[arg-type]
    try:
        checked.check_manifest("/b", Manifest(*second))  # type: ignore[arg-type]
    except UsageError as err:
        return str(err)
    return ""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (([X], [Y]), ([X], [Y])),
        (([X], [Y]), ([("x", "float16", (1, 4))], [("y", "float16", (1, 3))])),
        (([X], [Y]), ([("x", "float32", (8, 4))], [("y", "float32", (8, 3))])),
        (([X], [Y]), ([("x", "float32", ("batch", 4))], [("y", "float32", ("batch", 3))])),
        (([X], [Y]), ([X], [("y", "float32", (1, "classes"))])),
    ],
    ids=["equal", "dtype", "size", "open", "open output"],
)
def test_engines_of_one_model_may_differ(first: Any, second: Any) -> None:
    assert manifests(first, second) == manifests(second, first) == ""


@pytest.mark.parametrize(
    ("second", "difference"),
    [
        (
            ([("z", "float32", (1, 4))], [Y]),
            "their inputs are x float32[1, 4] and z float32[1, 4]",
        ),
        (([X, X], [Y]), "their inputs are x float32[1, 4] and x float32[1, 4], x float32[1, 4]"),
        (([X], []), "their outputs are y float32[1, 3] and none"),
        (([("x", "float32", (4,))], [Y]), "their inputs are x float32[1, 4] and x float32[4]"),
        (
            ([X], [("y", "float32", (1, 5))]),
            "their outputs are y float32[1, 3] and y float32[1, 5]",
        ),
    ],
    ids=["name", "count", "none", "rank", "width"],
)
def test_another_signature_is_another_model(second: Any, difference: str) -> None:
    expected = f"'/a' and '/b' are not of the same model: {difference}"
    assert manifests(([X], [Y]), second) == expected


def test_recorded_outputs_of_the_same_inputs_tell_weights_apart() -> None:
    one = Artifact("/a", ([1.0, 2.0], [3.0, 4.0]))
    assert check(one, Artifact("/b", ([1.0, 2.0], [3.0, 4.00001]))) == ""
    assert check(one, Artifact("/b", ([1.0, 2.5], [9.0, 9.0]))) == ""  # other inputs
    assert check(one, Artifact("/b", ([1.0, 2.0], [3.0, 5.0]))) == (
        "'/a' and '/b' are not of the same model: the reference outputs recorded for the same "
        "inputs differ, so the weights may differ"
    )


def test_each_artifact_is_compared_with_the_first_that_recorded_its_inputs() -> None:
    found = check(
        Artifact("/a", ([1.0], [1.0])),
        Artifact("/b", ([2.0], [2.0])),
        Artifact("/c", ([1.0], [1.0]), ([2.0], [3.0])),
    )
    assert found.startswith("'/b' and '/c' are not of the same model")


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ([np.inf, 1.0], [np.inf, 1.0], True),
        ([np.nan, 1.0], [np.nan, 1.0], True),
        ([1.0], [1.0, 1.0], False),
        ([[1.0]], [1.0], False),
        ([0.0, 0.0], [0.0, 0.0], True),
        (np.uint8([3, 200]), np.uint8([200, 3]), False),
        (np.array([1 + 1j]), np.array([1 - 1j]), False),
        (np.array([True, False]), np.array([True, False]), True),
        (np.zeros((0, 3)), np.zeros((0, 3)), True),
        ([1e30, 1.0], [1e30, 1.0], True),
    ],
    ids=["inf", "nan", "size", "rank", "zeros", "unsigned", "complex", "bool", "empty", "large"],
)
def test_outputs_of_any_kind_are_compared(ours: Any, theirs: Any, same: bool) -> None:
    for left, right in ((ours, theirs), (theirs, ours)):
        assert (check(Artifact("/a", ([1.0], left)), Artifact("/b", ([1.0], right))) == "") == same


def test_zeros_of_both_signs_are_the_same_inputs() -> None:
    one, other = Artifact("/a", ([0.0], [1.0])), Artifact("/b", ([-0.0], [2.0]))
    assert "recorded for the same inputs differ" in check(one, other)


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=5), st.floats(-1e-4, 1e-4))
def test_rounding_is_not_another_model(values: list[float], noise: float) -> None:
    ours = np.array(values)
    one, other = (
        Artifact("/a", ([1.0], ours)),
        Artifact("/b", ([1.0], ours * (1 + noise))),
    )
    assert check(one, other) == check(other, one) == ""
