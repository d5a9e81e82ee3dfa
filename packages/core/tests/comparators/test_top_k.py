"""``top-k``: the order of the best classes, in which only ties may swap."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from enginebay.comparators import find_comparators
from enginebay.errors import UsageError
from enginebay.tensors import Sample
from enginebay.verification.sample_comparison import check_comparators, compare_sample
from enginebay.verification.set_comparison import ToleranceOptions

SCORES = np.float32([[9, 8, 7, 6, 5, 4, 3, 2], [1, 2, 3, 4, 5, 6, 7, 8]])


def test_scores_below_the_top_k_are_ignored(compared):
    found = SCORES.copy()
    found[SCORES <= 5] -= 3
    result = compared("top-k:3", {"x": SCORES}, {"x": found})
    assert result.passed
    assert (result.matching.matched, result.outputs["x"].total) == (6, 6)
    assert not compared("top-k:5", {"x": SCORES}, {"x": found}).passed


def test_all_classes_and_a_single_row_are_compared(compared):
    assert compared("top-k:8", {"x": SCORES}, {"x": SCORES + np.float32(1e-4)}).passed
    assert compared("top-k:2", {"x": SCORES[0]}, {"x": SCORES[0] + np.float32(1e-4)}).passed


def test_a_different_order_fails(compared):
    found = SCORES.copy()
    found[0, [0, 1]] = found[0, [1, 0]]
    result = compared("top-k:2", {"x": SCORES}, {"x": found})
    assert result.outputs["x"].reason == "2 of 4 ranks have a different class"
    assert result.matching.worst == "at [0, 0]: expected class 0, found 1"


def test_different_scores_in_the_same_order_fail(compared):
    """An engine without the last softmax has such scores."""
    result = compared("top-k:3", {"x": SCORES}, {"x": SCORES * np.float32(1.1)})
    assert not result.passed
    assert result.outputs["x"].worst_index == (0, 0)
    assert result.outputs["x"].worst_expected == "9.0"


def test_ties_may_swap(compared):
    tied = np.float32([[1, 5, 5 + 1e-4, 2]])
    assert compared("top-k:2", {"x": tied}, {"x": tied[:, [0, 2, 1, 3]]}).passed
    assert compared("top-k:1", {"x": tied}, {"x": tied[:, [0, 2, 1, 3]]}).passed
    apart = np.float32([[1, 5, 5.1, 2]])
    assert not compared("top-k:1", {"x": apart}, {"x": apart[:, [0, 2, 1, 3]]}).passed


def test_nan_outside_the_top_k_fails(compared):
    found = SCORES.copy()
    found[1, 0] = np.nan
    assert not compared("top-k:3", {"x": SCORES}, {"x": found}).passed
    assert compared("top-k:3", {"x": found}, {"x": found}).passed


def test_outputs_of_torch_topk_are_compared(compared):
    scores = torch.tensor([[0.1, 0.7, 0.3, 0.7, 0.7, 0.2]])
    values, classes = (tensor.numpy() for tensor in scores.topk(3))
    expected = {"values": values, "classes": classes}
    assert compared("top-k:3", expected, expected | {"classes": np.array([[4, 1, 3]])}).passed
    assert not compared("top-k:3", expected, expected | {"classes": np.array([[4, 4, 3]])}).passed
    values, classes = (tensor.numpy() for tensor in scores.topk(4))
    expected = {"values": values, "classes": classes}
    wrong = classes.copy()
    wrong[0, [0, 3]] = wrong[0, [3, 0]]
    assert not compared("top-k:4", expected, expected | {"classes": wrong}).passed


def test_ties_may_swap_with_a_class_below_the_top_k(compared):
    expected = {"values": np.float32([[9, 5, 5]]), "classes": np.array([[7, 1, 3]])}
    assert compared("top-k:3", expected, expected | {"classes": np.array([[7, 2, 3]])}).passed
    assert not compared("top-k:3", expected, expected | {"classes": np.array([[2, 1, 3]])}).passed


def test_classes_without_scores_are_compared(compared):
    expected = {"best": np.array([[3, 1, 2], [0, 1, 2]])}
    assert compared("top-k:2", expected, {"best": np.array([[3, 1, 9], [0, 1, 9]])}).passed
    assert not compared("top-k:2", expected, {"best": np.array([[1, 3, 2], [0, 1, 2]])}).passed
    fewer = compared("top-k:2", expected, {"best": np.array([[3, 1], [0, 1]])})
    assert fewer.outputs["best"].reason == (
        "the shape of 'best' differs: expected (2, 3), found (2, 2)"
    )


@given(seed=st.integers(0, 10**6), k=st.integers(1, 6))
def test_noise_within_tolerance_always_passes(seed, k):
    rng = np.random.default_rng(seed)
    values = rng.choice(np.float32([0, 1, 2, 2 + 2**-13, 3]), (4, 6))
    noise = rng.uniform(-1, 1, values.shape) * 2**-13 * (np.abs(values) + 1)
    comparators = find_comparators({"x": f"top-k:{k}"})
    found = {"x": (values + noise).astype(np.float32)}
    compared = compare_sample({"x": values}, found, ToleranceOptions(), comparators)
    assert compared.outputs[0].passed, compared.outputs[0].describe()


BAD = {
    "comparator 'top-k:9' expects at least 9 classes, but 'x' has 8": ("top-k:9", {"x": SCORES}),
    "comparator 'top-k:5' expects at least 5 classes, but 'x' has 4": (
        "top-k",
        {"x": SCORES[:, :4]},
    ),
    "comparator 'top-k' expects scores or class indices along the last axis of one output, or "
    "the two outputs of torch.topk; found 'x' float32 ()": ("top-k", {"x": np.float32(1)}),
    "comparator 'top-k' expects scores or class indices along the last axis of one output, or "
    "the two outputs of torch.topk; found 'x' bool (9,)": ("top-k", {"x": np.ones(9, bool)}),
    "comparator 'top-k' expects that 'y' contains the class indices of 'x', integers of shape "
    "(2, 8); found float32 (2, 8)": ("top-k:2", {"x": SCORES, "y": SCORES}),
}


@pytest.mark.parametrize("message", BAD)
def test_outputs_without_classes_are_refused(message):
    name, outputs = BAD[message]
    comparators = find_comparators({tuple(outputs): name})
    with pytest.raises(UsageError) as caught:
        check_comparators(comparators, [Sample({}, outputs)])
    assert str(caught.value) == message


@pytest.mark.parametrize("k", [1, 3])
def test_the_class_of_the_last_rank_is_compared(compared, k):
    scores, classes = np.float32([[3, 2, 1]])[:, :k], np.array([[7, 4, 9]])[:, :k]
    wrong = classes.copy()
    wrong[0, -1] = 5
    both = {"s": scores, "c": classes}
    assert compared(f"top-k:{k}", both, both).passed
    result = compared(f"top-k:{k}", both, {"s": scores, "c": wrong})
    assert not result.passed
    assert result.matching.worst.endswith("found 5")
