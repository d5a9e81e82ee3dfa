"""The signal of an 8-bit engine beside its noise, over many samples.

Place by place an 8-bit engine may be off by a quarter, which a bad calibration stays within. Its
noise as a whole is steadier. A tensor that is rounded to 8 bits over four deviations to each side
has steps of ``8 / 255`` deviations, and a noise of ``step / sqrt(12)``: 41 dB below the signal. A
network of 50 layers rounds 100 tensors, its inputs and weights; their noises add up to 20 dB more.
So 20 dB are wanted, a noise of a tenth of the signal, 0.4 of the relative tolerance of 8 bits. The
signal is what varies: the mean of an output is no part of it.

Of a few numbers the noise varies by chance. The sum of ``n`` squares is distributed as chi-squared
with ``n`` degrees of freedom; its value that one in a thousand exceeds, by Wilson and Hilferty's
formula (Proceedings of the National Academy of Sciences 17, 1931), is allowed for.

Noise may be small beside an output and large beside what decides: where some classes always have
-100, say. So the largest value of an output with one decision must stay at its place as often as
under twice the noise that is allowed, beside what varies from item to item. Where the data have
targets, accuracy may fall by one in a hundred, and by chance: by Poisson's distribution, whose
deviation is the root of the changes, in either direction.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from enginebay.verdict import Signal
from enginebay.verification.output_arrays import as_numpy, is_float
from enginebay.verification.tolerance import EIGHT_BITS, tolerance_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.tensors import Array, NumpyArray, Sample

#: Noise beside signal, as a part of the relative tolerance.
_SHARE = 0.4

#: Twice the noise, in dB: 8-bit noise is not even.
_UNEVEN = 6.0

#: No output with more values is a choice of one.
_CLASSES = 1 << 18

#: The share of items on which an engine may be wrong where the model is right.
_DROP = 0.01

#: Deviations of a normal distribution that one in a thousand exceeds.
_ONE_IN_A_THOUSAND = 3.09


def signals(
    samples: Sequence[Sample],
    found: Sequence[Mapping[str, Array]],
    *,
    precision: str,
    rtol: float | None = None,
    targets: Sequence[int | None] = (),
) -> tuple[Signal, ...]:
    """Measure each output's signal and noise, on the data set's items and on the example.

    Args:
        samples: Inputs with the expected outputs. Those of a comparator are in the order of the
            partners; what has no partner stands beside a 0, and is noise with its whole size.
        found: The engine's outputs for them.
        precision: The precision of the engine; none but int8 and fp8 is measured.
        rtol: Replaces the relative tolerance, from which the wanted signal follows.
        targets: The class of each sample; None where it has none, or it is unknown.
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
        if (signal := _signal(name, place, group, allowed)) is not None
    )


def _signal(
    name: str,
    place: str,
    group: Sequence[tuple[Sample, Mapping[str, Array], int | None]],
    rtol: float,
) -> Signal | None:
    """One output's figures; None for integers, and where nothing can be compared."""
    power = noise = total = 0.0
    count = agreed = 0
    decisions: list[tuple[NumpyArray, Any, int | None]] = []
    for sample, outputs, target in group:
        if name not in sample.outputs:
            continue  # a comparator could not look at it, and the sample is a mismatch
        wanted, _ = as_numpy(sample.outputs[name])
        given, _ = as_numpy(outputs[name]) if name in outputs else (wanted[:0], "")
        if not is_float(wanted) or wanted.shape != given.shape:
            return None
        if not wanted.size:
            continue
        finite = np.isfinite(wanted) & np.isfinite(given)
        left, right = wanted[finite].astype(np.float64), given[finite].astype(np.float64)
        power += float(np.square(left).sum())
        total += float(left.sum())
        noise += float(np.square(right - left).sum())
        count += left.size
        agreed += bool(np.array_equal(wanted.argmax(-1), given.argmax(-1))) if wanted.ndim else 1
        if wanted.shape[-1:] == (wanted.size,) and wanted.size <= _CLASSES:
            decisions.append((wanted.reshape(-1), given.argmax(), target))
    if not count:
        return None
    power -= total * total / count
    if power <= 1e-12 * total * total / count:  # it does not vary
        return None
    signal = Signal(
        output=name,
        place=place,
        samples=len(group),
        agreed=agreed,
        decibels=10 * math.log10(power / noise) if noise else None,
        wanted=_wanted(count, rtol),
    )
    sizes = {values.size for values, _, _ in decisions}
    is_decision = len(decisions) == len(group) > 1 == len(sizes) and place == "items"
    return _decided(signal, decisions) if is_decision else signal


def _decided(signal: Signal, decisions: Sequence[tuple[NumpyArray, Any, int | None]]) -> Signal:
    """What is wanted of the decisions: the model's values, the engine's choice, and the target."""
    wanted = np.stack([values for values, _, _ in decisions]).astype(np.float64)
    if not np.isfinite(wanted).all():
        return signal
    signal = msgspec.structs.replace(signal, agreed_wanted=_agreed_wanted(wanted, signal.wanted))
    targets = [-1 if target is None else target for _, _, target in decisions]
    if not all(0 <= target < wanted.shape[1] for target in targets):
        return signal
    right = np.equal([choice for _, choice, _ in decisions], targets)
    expected = np.equal(wanted.argmax(-1), targets)
    drop = _DROP * len(right)
    by_chance = _ONE_IN_A_THOUSAND * math.sqrt(drop + 2 * int((right & ~expected).sum()))
    return msgspec.structs.replace(
        signal,
        right=int(right.sum()),
        right_in_model=int(expected.sum()),
        right_wanted=math.ceil(int(expected.sum()) - drop - by_chance),
    )


def _agreed_wanted(outputs: NumpyArray, decibels: float) -> int:
    """How many decisions stay as they are under the noise that is allowed, less chance."""
    varying = outputs - outputs.mean(0)
    noise = math.sqrt(float(np.square(varying).mean())) * 10 ** ((_UNEVEN - decibels) / 20)
    random, best = np.random.default_rng(0), outputs.argmax(-1)
    drawn = (outputs + noise * random.standard_normal(outputs.shape) for _ in range(8))
    share, count = float(np.mean([one.argmax(-1) == best for one in drawn])), len(outputs)
    by_chance = _ONE_IN_A_THOUSAND * math.sqrt(count * share * (1 - share) + 1)
    return max(0, math.ceil(count * share - by_chance))


def _wanted(count: int, rtol: float) -> float:
    """The least signal above noise, in dB, of so many numbers."""
    spread = 2 / (9 * count)
    by_chance = (1 - spread + _ONE_IN_A_THOUSAND * math.sqrt(spread)) ** 3
    return -20 * math.log10(_SHARE * max(rtol, 1e-9)) - 10 * math.log10(by_chance)
