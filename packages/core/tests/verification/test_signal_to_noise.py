"""The signal of an 8-bit engine: its noise, its decisions, its accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from enginebay.tensors import Sample
from enginebay.verification.signal_to_noise import measure_signals

if TYPE_CHECKING:
    from collections.abc import Callable

    from enginebay.tensors import NumpyArray
    from enginebay.verdict import Signal

RANDOM = np.random.default_rng(0)
LOGITS = RANDOM.normal(size=(64, 1, 10)).astype(np.float32)
CLASSES = [int(logits.argmax()) for logits in LOGITS]


def measure(expected: NumpyArray, found: NumpyArray, targets: Any = ()) -> Signal:
    samples = [Sample({}, {"y": output}, "item") for output in expected]
    outputs = [{"y": output} for output in found]
    (signal,) = measure_signals(samples, outputs, precision="int8", targets=targets)
    return signal


def add_noise(expected: NumpyArray, size: float) -> NumpyArray:
    return expected + size * RANDOM.standard_normal(expected.shape).astype(np.float32)


def test_constant_logits_do_not_hide_wrong_decisions() -> None:
    expected = np.concatenate([LOGITS, np.full_like(LOGITS, -100)], -1)
    found = expected.copy()
    found[..., :10] = LOGITS[..., ::-1] * 0.8
    signal = measure(expected, found)
    assert signal.decibels is not None
    assert signal.decibels > signal.wanted
    assert signal.agreed is not None
    assert signal.agreed < 10 < 40 < signal.agreed_wanted
    assert not signal.passed
    assert f"largest value agrees in {signal.agreed} (required " in signal.describe()


@pytest.mark.parametrize("constants", [0, 10])
def test_noise_below_the_spread_of_logits_passes(constants: int) -> None:
    expected = np.concatenate([LOGITS, np.full((64, 1, constants), -100, np.float32)], -1)
    assert measure(expected, add_noise(expected, 0.08)).passed


def test_agreement_is_not_required_of_image_outputs() -> None:
    images = RANDOM.normal(size=(8, 3, 16, 16)).astype(np.float32)
    signal = measure(images, add_noise(images, 0.08))
    assert (signal.agreed_wanted, signal.right) == (0, None)
    assert signal.agreed is not None
    assert signal.agreed < 4
    assert signal.passed
    assert signal.describe().endswith("accuracy was not measured")


@pytest.mark.parametrize(("lost", "passed"), [(3, True), (4, False)])
def test_accuracy_may_fall_by_chance_alone(lost: int, passed: bool) -> None:
    found = LOGITS.copy()
    for logits, best in zip(found[:lost], CLASSES, strict=False):
        logits[0, best] = np.sort(logits[0])[-2] - 1e-3  # below the second largest
    signal = measure(LOGITS, found, CLASSES)
    assert (signal.right, signal.right_in_model, signal.right_wanted) == (64 - lost, 64, 61)
    assert signal.passed is passed
    end = f"engine right on {64 - lost} of 64, model right on 64 (required 61)"
    assert signal.describe().endswith(end)


@pytest.mark.parametrize("targets", [[10, *CLASSES[1:]], [None, *CLASSES[1:]]])
def test_accuracy_is_not_measured_with_invalid_targets(targets: Any) -> None:
    assert measure(LOGITS, LOGITS, targets).right is None


BOXES = RANDOM.uniform(0, 640, size=(64, 1, 50, 4)).astype(np.float32)
SCORES = RANDOM.uniform(0, 1, size=(64, 1, 50, 3)).astype(np.float32)
HEADS = {
    "the last axis": (-1, "[..., 4:7]"),
    "the axis before": (-2, "[..., 4:7, :]"),
}


@pytest.mark.parametrize("axis", HEADS)
def test_scores_that_share_a_scale_with_boxes_are_lost(axis: str) -> None:
    place, slices = HEADS[axis]
    expected = np.concatenate([BOXES, SCORES], -1).swapaxes(-1, place)
    signal = measure(expected, np.round(expected / 2.5) * 2.5)
    assert signal.decibels is not None
    assert signal.decibels > 40
    assert (signal.passed, signal.lost, signal.faint) == (False, slices, "")
    assert f", noise is more than half of the signal in {slices}, " in signal.describe()
    assert signal.remedy() == (
        "values of different size share a scale: return them as separate outputs, or keep the "
        "node that joins them in floating point with --int8-keep (int8_keep=), or calibrate with "
        "data like those that the engine will receive, or run the worst layers in floating point: "
        "enginebay quantize MODEL"
    )


def test_scores_with_a_scale_of_their_own_pass() -> None:
    expected = np.concatenate([BOXES, SCORES], -1)
    found = np.concatenate([np.round(BOXES / 2.5) * 2.5, np.round(SCORES * 255) / 255], -1)
    signal = measure(expected, found)
    assert (signal.passed, signal.lost, signal.faint) == (True, "", "")


def test_a_class_that_no_item_shows_is_told_and_no_mismatch() -> None:
    expected = SCORES.copy()
    expected[..., 1] *= 1e-3
    signal = measure(expected, np.round(expected * 255) / 255)
    assert (signal.passed, signal.lost, signal.faint) == (True, "", "[..., 1]")
    assert signal.limit() == (
        '"y" varies by less than twice the noise of 8 bits in [..., 1], so an engine that is wrong '
        "there would pass: pass --data in which it varies, or leave layers in floating point with "
        "--int8-keep (int8_keep=)"
    )


def test_scores_that_hardly_vary_are_told_and_no_mismatch() -> None:
    scores = 0.5 + SCORES / 100
    expected = np.concatenate([BOXES, scores], -1)
    signal = measure(expected, np.concatenate([BOXES, add_noise(scores, 0.01)], -1))
    assert (signal.passed, signal.lost, signal.faint) == (True, "", "[..., 4:7]")


@pytest.mark.parametrize("step", [2.5, 1 / 64])
def test_scores_of_a_single_box_are_told_if_they_are_lost(step: float) -> None:
    boxes, scores = BOXES[:, :, 0], SCORES[:, :, 0]
    expected = np.concatenate([boxes, scores], -1)
    signal = measure(expected, np.concatenate([boxes, np.round(scores / step) * step], -1))
    assert (signal.passed, signal.lost) == (True, "")
    assert signal.faint == ("[..., 4:7]" if step > 1 else "")


#: What an engine returns for a batch, one row of which it should have returned for each.
MIXED: dict[str, Callable[[NumpyArray], NumpyArray]] = {
    "the mean": lambda rows: rows.mean(1, keepdims=True),
    "the last row": lambda rows: rows[:, -1:],
    "the median": lambda rows: np.median(rows, 1, keepdims=True).astype(np.float32),
}


@pytest.mark.parametrize("batch", [2, 4, 8])
@pytest.mark.parametrize("mistake", MIXED)
def test_rows_that_an_engine_mixes_up_are_lost_beside_boxes_or_told(
    mistake: str, batch: int
) -> None:
    rows = RANDOM.normal(size=(64, batch, 6)).astype(np.float32)
    wrong = np.broadcast_to(MIXED[mistake](rows), rows.shape)
    boxes = RANDOM.uniform(0, 640, size=(64, batch, 4)).astype(np.float32)
    signal = measure(np.concatenate([boxes, rows], -1), np.concatenate([boxes, wrong], -1))
    assert (signal.lost, signal.faint) == (
        ("[..., 4:10]", "") if batch > 2 else ("", "[..., 4:10]")
    )
    constants = 30 * RANDOM.choice([-1, 1], size=(batch, 6))
    signal = measure(constants + rows, constants + wrong)
    assert signal.faint == "[...]" or not signal.passed


@pytest.mark.parametrize(("size", "passed"), [(0.5, True), (0.8, True), (1.5, False)])
def test_constants_of_elements_are_no_signal(size: float, passed: bool) -> None:
    random = np.random.default_rng(1)  # of its own: other tests draw from the other one
    constants = 30 * random.choice([-1, 1], size=(16, 24))
    expected = (constants + random.normal(size=(64, 1, 16, 24))).astype(np.float32)
    noise = size * random.standard_normal(expected.shape).astype(np.float32)
    signal = measure(expected, expected + noise)
    assert signal.decibels is not None
    assert signal.varying is not None
    assert signal.decibels > 25
    assert signal.passed is passed
    assert signal.faint == ("[...]" if size == 0.8 else "")
    assert signal.varying == pytest.approx(-20 * np.log10(size), abs=0.3)
    assert ("dB without each element's mean (required -0.1)" in signal.describe()) is not passed


def test_the_ratio_without_means_is_of_samples_of_one_shape() -> None:
    rows = [RANDOM.normal(size=(1, length, 4)).astype(np.float32) for length in (3, 5, 7)]
    samples = [Sample({}, {"y": output}, "item") for output in (*rows, rows[0] + 1)]
    outputs = [{"y": sample.outputs["y"] + np.float32(0.01)} for sample in samples]
    (signal,) = measure_signals(samples, outputs, precision="int8")
    # Both samples of length 3 differ by 1: a variance of a half, and one degree of freedom.
    assert signal.varying == pytest.approx(10 * np.log10(0.5 / 1e-4), abs=0.1)


def test_one_item_includes_the_means() -> None:
    signal = measure(LOGITS[:1], add_noise(LOGITS[:1], 0.01))
    assert (signal.varying, signal.agreed, signal.passed) == (None, None, True)
    assert ", each element's mean included, accuracy" in signal.describe()


def test_few_items_may_have_little_signal_by_chance() -> None:
    expected = np.array([[[1.0, 5.0]], [[1.001, 5.001]]], np.float32)
    signal = measure(expected, expected + np.float32(0.005))
    assert signal.varying is not None
    assert signal.varying_wanted < signal.varying < 0
    assert signal.passed


def test_a_largest_value_that_never_moves_is_not_counted() -> None:
    expected = LOGITS.copy()
    expected[..., 3] += 100
    signal = measure(expected, add_noise(expected, 0.05))
    assert (signal.agreed, signal.agreed_wanted, signal.passed) == (None, 0, True)
    assert "largest value" not in signal.describe()


@pytest.mark.parametrize("count", [3, 16])
@pytest.mark.parametrize("offset", [0.0, 20.0])
def test_an_engine_that_returns_the_means_is_wrong(count: int, offset: float) -> None:
    expected = LOGITS[:count] + np.float32(offset) * np.sign(LOGITS[:1])
    found = np.broadcast_to(expected.mean(0, keepdims=True), expected.shape).astype(np.float32)
    assert not measure(expected, found).passed
