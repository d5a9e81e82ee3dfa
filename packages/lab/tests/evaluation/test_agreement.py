"""The distance of an artifact's outputs from PyTorch's, and whether their decisions are equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from enginebay_lab.evaluation.agreement import compare_items

floats = arrays(
    np.float32,
    array_shapes(max_dims=3, max_side=4),
    elements=st.floats(-1e6, 1e6, width=32) | st.sampled_from([np.inf, -np.inf, np.nan]),
)


def compare(left: Any, right: Any) -> tuple[list[bool], list[float]]:
    agreed, distances = compare_items([{"y": np.asarray(left)}], [{"y": np.asarray(right)}])
    return agreed.tolist(), distances.tolist()


@settings(max_examples=60)
@given(floats)
def test_an_output_equals_itself_unless_it_has_nan(array: np.ndarray[Any, Any]) -> None:
    agreed, (distance,) = compare(array, array)
    has_nan = bool(np.isnan(array).any())
    assert distance == (np.inf if has_nan else 0.0)
    if agreed and not has_nan:
        assert agreed == [True]


@settings(max_examples=60)
@given(st.lists(floats, min_size=1, max_size=4), st.integers(0, 3))
def test_items_together_are_compared_as_one_by_one(
    outputs: list[np.ndarray[Any, Any]], shift: int
) -> None:
    found = [{"y": array} for array in outputs]
    expected = [{"y": np.roll(array, shift)} for array in outputs]
    together = compare_items(found, expected)
    alone = [compare_items([one], [other]) for one, other in zip(found, expected, strict=True)]
    assert together[0].tolist() == [value for agreed, _ in alone for value in agreed]
    np.testing.assert_array_equal(together[1], [distance for _, (distance,) in alone])


@pytest.mark.parametrize(
    ("left", "right", "agreed", "distance"),
    [
        ([[1.0, 2.0]], [[1.0, 3.0]], [True], 1 / np.sqrt(10)),
        ([[2.0, 1.0]], [[1.0, 2.0]], [False], np.sqrt(2 / 5)),
        ([[2.0, np.nan]], [[2.0, 1.0]], [False], np.inf),
        ([[5.0]], [[4.0]], [], 0.25),  # a single score is no decision
        ([2.0, 1.0], [1.0, 2.0], [False], np.sqrt(2 / 5)),  # scores without a batch
        (2.0, 1.0, [], 1.0),
        ([1, 2], [1, 2], [True], 0.0),
        ([1, 2], [1, 3], [False], 1 / np.sqrt(10)),
        ([True], [False], [False], np.inf),  # relative to zero
        ([[np.inf, 1.0]], [[np.inf, 1.0]], [True], 0.0),
        ([[np.inf, 1.0]], [[0.0, 1.0]], [False], np.inf),
        ([1.0], [[1.0]], [False], np.inf),  # another shape
        ([0.0], [0.0], [], 0.0),
    ],
)
def test_decisions_and_distances(
    left: Any, right: Any, agreed: list[bool], distance: float
) -> None:
    assert compare(left, right) == (agreed, [pytest.approx(distance)])


def test_all_decisions_of_an_item_must_agree() -> None:
    right = {"label": np.array([1]), "scores": np.float32([[0.1, 0.9]])}
    for changed in ({"label": np.array([2])}, {"scores": np.float32([[0.9, 0.1]])}):
        agreed, _ = compare_items([right | changed], [right])
        assert agreed.tolist() == [False]
    assert compare_items([right], [right])[0].tolist() == [True]


def test_a_missing_output_is_infinitely_far() -> None:
    agreed, distances = compare_items([{"x": np.ones(2)}], [{"y": np.ones(2)}])
    assert (agreed.tolist(), distances.tolist()) == ([False], [np.inf])


def test_an_output_that_only_the_artifact_has_is_ignored() -> None:
    _, distances = compare_items([{"x": np.ones(2), "y": np.ones(2)}], [{"y": np.ones(2)}])
    assert distances.tolist() == [0.0]


def test_differences_of_unsigned_numbers_do_not_wrap_around() -> None:
    _, (distance,) = compare(np.uint8([0]), np.uint8([1]))
    assert distance == 1.0
