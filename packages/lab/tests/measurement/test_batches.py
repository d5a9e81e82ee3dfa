"""Inputs that are stacked to another batch size."""

from __future__ import annotations

import numpy as np
import pytest

from enginebay import TensorSpec
from enginebay.errors import UsageError
from enginebay_lab.measurement.batches import count_items, stack_batch

X = TensorSpec("x", "float32", ("batch", 3))
ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_rows_are_repeated_to_fill_the_batch() -> None:
    found = stack_batch({"x": ROWS}, [X], 5)["x"]
    assert found[:, 0].tolist() == [0, 3, 0, 3, 0]
    assert stack_batch({"x": ROWS}, [X], 1)["x"].tolist() == [[0, 1, 2]]


def test_every_dimension_with_the_batch_name_is_stacked() -> None:
    pairs = TensorSpec("pairs", "bool", (4, "batch"))
    fixed = TensorSpec("scale", "float32", (7,))
    inputs = {"x": ROWS, "pairs": np.ones((4, 2), bool), "scale": np.ones(7, np.float32)}
    found = stack_batch(inputs, [X, pairs, fixed], 3)
    assert [array.shape for array in found.values()] == [(3, 3), (4, 3), (7,)]


def test_a_fixed_batch_cannot_change() -> None:
    spec = TensorSpec("x", "float32", (2, 3))
    assert stack_batch({"x": ROWS}, [spec], 2)["x"] is ROWS
    with pytest.raises(
        UsageError, match=r"^the batch size is fixed: .* x float32\[2, 3\]\nhint: [^\n]+$"
    ) as caught:
        stack_batch({"x": ROWS}, [spec], 8)
    hint = "deploy the model with a dynamic batch size: --min-shapes x:1x3 --max-shapes x:8x3"
    assert caught.value.hint == hint


def test_a_model_without_inputs_or_rows_cannot_be_batched() -> None:
    with pytest.raises(UsageError, match="no input has dimensions"):
        stack_batch({}, [], 8)
    with pytest.raises(UsageError, match="batch size 0"):
        stack_batch({"x": ROWS[:0]}, [X], 8)


def test_items_are_counted_along_the_first_of_several_axes() -> None:
    assert count_items({"x": ROWS}) == 2
    assert count_items({"x": ROWS[0]}) == 1
    assert count_items({}) == 1
