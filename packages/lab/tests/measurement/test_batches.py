"""Inputs of another batch."""

from __future__ import annotations

import numpy as np
import pytest

from enginebay.errors import UsageError
from enginebay.tensors import TensorSpec
from enginebay_lab.measurement.batches import size, with_batch

X = TensorSpec("x", "float32", ("batch", 3))
ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_rows_follow_one_another_again_and_again() -> None:
    found = with_batch({"x": ROWS}, [X], 5)["x"]
    assert found[:, 0].tolist() == [0, 3, 0, 3, 0]
    assert with_batch({"x": ROWS}, [X], 1)["x"].tolist() == [[0, 1, 2]]


def test_every_dimension_of_the_batchs_name_follows() -> None:
    pairs = TensorSpec("pairs", "bool", (4, "batch"))
    fixed = TensorSpec("scale", "float32", (7,))
    inputs = {"x": ROWS, "pairs": np.ones((4, 2), bool), "scale": np.ones(7, np.float32)}
    found = with_batch(inputs, [X, pairs, fixed], 3)
    assert [array.shape for array in found.values()] == [(3, 3), (4, 3), (7,)]


def test_a_fixed_batch_is_only_itself() -> None:
    spec = TensorSpec("x", "float32", (2, 3))
    assert with_batch({"x": ROWS}, [spec], 2)["x"] is ROWS
    with pytest.raises(
        UsageError, match=r"^the batch is fixed: .* x float32\[2, 3\]\nhint: [^\n]+$"
    ) as caught:
        with_batch({"x": ROWS}, [spec], 8)
    hint = "deploy it with an open one: --min-shapes x:1x3 --max-shapes x:8x3"
    assert caught.value.hint == hint


def test_a_model_without_inputs_or_rows_has_no_batch() -> None:
    with pytest.raises(UsageError, match="no input has dimensions"):
        with_batch({}, [], 8)
    with pytest.raises(UsageError, match="no rows"):
        with_batch({"x": ROWS[:0]}, [X], 8)


def test_items_are_counted_along_the_first_axis_of_more_than_one() -> None:
    assert size({"x": ROWS}) == 2
    assert size({"x": ROWS[0]}) == 1
    assert size({}) == 1
