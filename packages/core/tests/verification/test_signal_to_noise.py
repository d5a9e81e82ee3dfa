"""The signal of an 8-bit engine: its noise, its decisions, its accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from enginebay.tensors import Sample
from enginebay.verification.signal_to_noise import measure_signals

if TYPE_CHECKING:
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
