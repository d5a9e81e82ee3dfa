"""The signal-to-noise ratio of an 8-bit engine over many samples.

Element by element an 8-bit engine may be off by a quarter, which even a bad calibration achieves.
Its noise as a whole is steadier. A tensor that is rounded to 8 bits over four deviations to each
side has steps of ``8 / 255`` deviations, and a noise of ``step / sqrt(12)``: 41 dB below the
signal. A network of 50 layers rounds 100 tensors, its inputs and weights; their noises add up to
20 dB more. So 20 dB are required, a noise of a tenth of the signal, 0.4 of the relative tolerance
of 8 bits. The signal is the part that varies: the mean of an output does not count.

The noise of a few numbers varies by chance. The sum of ``n`` squares has a chi-squared distribution
with ``n`` degrees of freedom; it may reach the value that one in a thousand exceeds, by Wilson and
Hilferty's formula (Proceedings of the National Academy of Sciences 17, 1931).

Noise may be small compared with an output and large compared with what decides, if some classes
always have -100, for example. So the largest value of an output with one decision must stay at its
index as often as under twice the allowed noise, relative to what varies from item to item. If the
data have targets, accuracy may fall by one in a hundred, and by chance: by Poisson's distribution,
whose deviation is the root of the number of changes, in either direction.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from enginebay.verdict import Signal
from enginebay.verification.output_arrays import as_numpy, is_float
from enginebay.verification.tolerance import EIGHT_BITS, tolerance_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.tensors import Array, NumpyArray, Sample

    Row = tuple[Sample, Mapping[str, Array], int | None]

#: The allowed noise relative to the signal, as a part of the relative tolerance.
_NOISE_SHARE = 0.4

#: Twice the noise, in dB: 8-bit noise is not even.
_UNEVEN_NOISE_DECIBELS = 6.0

#: An output with more values is not the choice of one class.
_MAX_CLASSES = 1 << 18

#: The share of items on which an engine may be wrong while the model is right.
_MAX_ACCURACY_DROP = 0.01

#: Standard deviations that one in a thousand values of a normal distribution exceeds.
_ONE_IN_A_THOUSAND = 3.09

#: Draws of the allowed noise, from which the share of changed decisions is estimated.
_NOISE_DRAWS = 8


class _Decision(NamedTuple):
    """The model's values for one item, the engine's choice among them, and the true class."""

    values: NumpyArray
    choice: int
    target: int | None


def measure_signals(
    samples: Sequence[Sample],
    found: Sequence[Mapping[str, Array]],
    *,
    precision: str,
    rtol: float | None = None,
    targets: Sequence[int | None] = (),
) -> tuple[Signal, ...]:
    """Measure each output's signal and noise, on the data set's items and on the example.

    Args:
        samples: Inputs with the expected outputs. Outputs of a comparator are in the order of the
            matches; a value without a match is compared with 0, and counts as noise.
        found: The engine's outputs for them.
        precision: The precision of the engine; only int8 and fp8 are measured.
        rtol: Replaces the relative tolerance, from which the required signal follows.
        targets: The class of each sample; None if it has none, or it is unknown.
    """
    if precision not in EIGHT_BITS:
        return ()
    allowed = tolerance_for("float32", precision).rtol if rtol is None else rtol
    rows = list(zip(samples, found, targets or [None] * len(samples), strict=True))
    groups = {
        "items": [row for row in rows if row[0].kind == "item"],
        "the example": [row for row in rows if row[0].kind != "item"],
    }
    return tuple(
        signal
        for place, group in groups.items()
        if group
        for name in group[0][0].outputs
        if (signal := _measure_signal(name, place, group, allowed)) is not None
    )


def _measure_signal(name: str, place: str, group: Sequence[Row], rtol: float) -> Signal | None:
    """Measure one output; None for integers, and if there is nothing to compare."""
    power = noise = total = 0.0
    count = agreed = 0
    decisions: list[_Decision] = []
    for sample, outputs, target in group:
        if name not in sample.outputs:
            continue  # a comparator could not compare it, and the sample is a mismatch
        expected, _ = as_numpy(sample.outputs[name])
        found, _ = as_numpy(outputs[name]) if name in outputs else (expected[:0], "")
        if not is_float(expected) or expected.shape != found.shape:
            return None
        if not expected.size:
            continue
        finite = np.isfinite(expected) & np.isfinite(found)
        left, right = expected[finite].astype(np.float64), found[finite].astype(np.float64)
        power += float(np.square(left).sum())
        total += float(left.sum())
        noise += float(np.square(right - left).sum())
        count += left.size
        agreed += (
            bool(np.array_equal(expected.argmax(-1), found.argmax(-1))) if expected.ndim else 1
        )
        if expected.shape[-1:] == (expected.size,) and expected.size <= _MAX_CLASSES:
            decisions.append(_Decision(expected.reshape(-1), int(found.argmax()), target))
    if not count:
        return None
    power -= total * total / count
    if power <= 1e-12 * total * total / count:  # the output varies by rounding only
        return None
    signal = Signal(
        output=name,
        place=place,
        samples=len(group),
        agreed=agreed,
        decibels=10 * math.log10(power / noise) if noise else None,
        wanted=_required_decibels(count, rtol),
    )
    sizes = {decision.values.size for decision in decisions}
    is_decision = len(decisions) == len(group) > 1 == len(sizes) and place == "items"
    return _add_decisions(signal, decisions) if is_decision else signal


def _add_decisions(signal: Signal, decisions: Sequence[_Decision]) -> Signal:
    """Return the signal with the required agreement, and the accuracy if targets are known."""
    expected = np.stack([decision.values for decision in decisions]).astype(np.float64)
    if not np.isfinite(expected).all():
        return signal
    required = _required_agreements(expected, signal.wanted)
    signal = msgspec.structs.replace(signal, agreed_wanted=required)
    targets = [-1 if decision.target is None else decision.target for decision in decisions]
    if not all(0 <= target < expected.shape[1] for target in targets):
        return signal
    engine_right = np.equal([decision.choice for decision in decisions], targets)
    model_right = np.equal(expected.argmax(-1), targets)
    drop = _MAX_ACCURACY_DROP * len(engine_right)
    gained = int((engine_right & ~model_right).sum())
    by_chance = _ONE_IN_A_THOUSAND * math.sqrt(drop + 2 * gained)
    return msgspec.structs.replace(
        signal,
        right=int(engine_right.sum()),
        right_in_model=int(model_right.sum()),
        right_wanted=math.ceil(int(model_right.sum()) - drop - by_chance),
    )


def _required_agreements(outputs: NumpyArray, decibels: float) -> int:
    """Return how many decisions stay unchanged under the allowed noise, less chance."""
    varying = outputs - outputs.mean(0)
    level = 10 ** ((_UNEVEN_NOISE_DECIBELS - decibels) / 20)
    noise = math.sqrt(float(np.square(varying).mean())) * level
    random, best = np.random.default_rng(0), outputs.argmax(-1)
    drawn = (outputs + noise * random.standard_normal(outputs.shape) for _ in range(_NOISE_DRAWS))
    share = float(np.mean([noisy.argmax(-1) == best for noisy in drawn]))
    count = len(outputs)
    by_chance = _ONE_IN_A_THOUSAND * math.sqrt(count * share * (1 - share) + 1)
    return max(0, math.ceil(count * share - by_chance))


def _required_decibels(count: int, rtol: float) -> float:
    """Return the least signal above noise, in dB, for this many numbers."""
    spread = 2 / (9 * count)
    by_chance = (1 - spread + _ONE_IN_A_THOUSAND * math.sqrt(spread)) ** 3
    return -20 * math.log10(_NOISE_SHARE * max(rtol, 1e-9)) - 10 * math.log10(by_chance)
