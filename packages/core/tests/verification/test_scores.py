"""The tolerance of scores, results of a sigmoid or a softmax, is that of their logits."""

from __future__ import annotations

import numpy as np
import pytest

from enginebay.authors.arrays import compare_outputs

rng = np.random.default_rng(0)


def sigmoid(logits):
    return (1 / (1 + np.exp(-np.asarray(logits, np.float64)))).astype(np.float32)


def compare(expected, found, **options):
    scores = {"y": float(np.nanmax(expected))}
    (result,) = compare_outputs({"y": expected}, {"y": found}, scores=scores, **options)
    return result


def passes(expected, found, **options):
    return compare(expected, found, **options).passed


#: A detector's: most of them far below 0, a few objects.
LOGITS = np.concatenate([rng.normal(-17, 1, 5000), rng.normal(0, 3, 50)])


def test_errors_of_1e_7_pass_among_scores_of_1e_8():
    expected = sigmoid(LOGITS)
    found = np.where(LOGITS < -10, expected + np.float32(1e-7), expected)
    assert passes(expected, found)
    (result,) = compare_outputs({"y": expected}, {"y": found})
    assert not result.passed


def test_errors_of_the_logits_pass_at_any_score():
    assert passes(sigmoid(LOGITS), sigmoid(LOGITS * (1 + 1e-4)))
    assert passes(sigmoid(LOGITS), sigmoid(LOGITS + 1e-3))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda logits: sigmoid(logits * 1.001),
        lambda logits: sigmoid(logits + 0.02),
        lambda logits: sigmoid(np.where(logits > 3, logits - 0.2, logits)),
        lambda logits: sigmoid(np.where(logits < -10, -8, logits)),
        lambda logits: sigmoid(logits.astype(np.float16) * np.float16(0.999)),
        lambda logits: np.zeros(logits.shape, np.float32),
        lambda logits: np.where(sigmoid(logits) < 1e-3, np.float32(0), sigmoid(logits)),
    ],
)
def test_other_scores_do_not_pass(wrong):
    assert not passes(sigmoid(LOGITS), wrong(LOGITS))


@pytest.mark.parametrize("shift", [-18, -14, -9])
def test_zeros_never_pass_for_scores_that_are_all_small(shift):
    logits = rng.normal(shift, 1, 100)
    assert not passes(sigmoid(logits), np.zeros(100, np.float32))
    assert not passes(sigmoid(logits), sigmoid(logits) * np.float32(1.2))
    assert not passes(sigmoid(logits), np.full(100, sigmoid(shift)))


def test_a_tolerance_of_the_caller_replaces_it():
    expected = sigmoid(LOGITS)
    assert not passes(expected, expected + np.float32(1e-7), rtol=1e-4, atol=0.0)
    assert not passes(expected, expected + np.float32(1e-7), rtol=0.0)


def test_values_beyond_0_and_1_are_no_scores():
    values = np.concatenate([sigmoid(LOGITS), np.float32([1.5])])
    assert not passes(values, values + np.float32(1e-7))


def test_scores_without_a_number_between_0_and_1_can_be_compared():
    ends = np.float32([0, 1, np.nan, 0])
    assert passes(ends, ends)
    assert not passes(ends, np.float32([0, 1, 0, 0]))


def test_the_message_names_the_rule():
    expected = sigmoid(LOGITS)
    result = compare(expected, expected * 2)
    assert result.is_score
    assert " as for its logit; rtol " in result.describe()
