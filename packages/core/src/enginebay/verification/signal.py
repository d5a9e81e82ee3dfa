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
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from enginebay.verdict import Signal
from enginebay.verification.output_arrays import as_numpy, is_float
from enginebay.verification.tolerance import CALIBRATED, tolerance_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.tensors import Array, Sample

#: Noise beside signal, as a part of the relative tolerance.
_SHARE = 0.4

#: Deviations of a normal distribution that one in a thousand exceeds.
_ONE_IN_A_THOUSAND = 3.09


def signals(
    samples: Sequence[Sample],
    found: Sequence[Mapping[str, Array]],
    *,
    precision: str,
    rtol: float | None = None,
) -> tuple[Signal, ...]:
    """Measure each output's signal and noise, on the data set's items and on the example.

    Args:
        samples: Inputs with the expected outputs. Those of a comparator are in the order of the
            partners; what has no partner stands beside a 0, and is noise with its whole size.
        found: The engine's outputs for them.
        precision: The precision of the engine; none but int8 and fp8 is measured.
        rtol: Replaces the relative tolerance, from which the wanted signal follows.
    """
    if precision not in CALIBRATED:
        return ()
    allowed = tolerance_for("float32", precision).rtol if rtol is None else rtol
    pairs = list(zip(samples, found, strict=True))
    groups = {
        "items": [pair for pair in pairs if pair[0].kind == "item"],
        "the example": [pair for pair in pairs if pair[0].kind != "item"],
    }
    return tuple(
        signal
        for place, group in groups.items()
        if group
        for name in group[0][0].outputs
        if (signal := _signal(name, place, group, allowed)) is not None
    )


def _signal(
    name: str, place: str, group: Sequence[tuple[Sample, Mapping[str, Array]]], rtol: float
) -> Signal | None:
    """One output's figures; None for integers, and where nothing can be compared."""
    power = noise = total = 0.0
    count = agreed = 0
    for sample, outputs in group:
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
    if not count:
        return None
    power -= total * total / count
    if power <= 1e-12 * total * total / count:  # it does not vary
        return None
    return Signal(
        output=name,
        place=place,
        samples=len(group),
        agreed=agreed,
        decibels=10 * math.log10(power / noise) if noise else None,
        wanted=_wanted(count, rtol),
    )


def _wanted(count: int, rtol: float) -> float:
    """The least signal above noise, in dB, of so many numbers."""
    spread = 2 / (9 * count)
    by_chance = (1 - spread + _ONE_IN_A_THOUSAND * math.sqrt(spread)) ** 3
    return -20 * math.log10(_SHARE * max(rtol, 1e-9)) - 10 * math.log10(by_chance)
