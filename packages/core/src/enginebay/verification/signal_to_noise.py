"""The signal-to-noise ratio of an 8-bit engine over many samples.

The relative tolerance of a single element in 8 bits is a quarter: even a badly calibrated engine
passes. The noise of all elements together is a stricter measure. A tensor that is rounded to 8 bits
over four standard deviations to each side has steps of ``8 / 255`` deviations, and noise of
``step / sqrt(12)``: 41 dB below the signal. A network of 50 layers rounds 100 tensors (activations
and weights), which together have 20 dB more noise. So a ratio of 20 dB is required: noise of a
tenth of the signal, which is 0.4 of the relative tolerance of 8 bits. The signal is the part of an
output that varies: its mean does not count.

This ratio counts what an engine without inputs would know: elements that have different constants
are signal. So a second ratio leaves each element's own mean over the samples out: the part of the
output that tells one item from another. The mean is computed from the samples, which costs one of
them: the noise is reduced by the same part. The ratio is measured for two or more samples of one
shape, for the whole output and for each slice (the elements with one index on an axis). If it is
below 0 dB for the whole, an engine that always returned the mean would be nearer to the model: a
mismatch, as is a constant where the model's output varies by more than four steps. More is not
required: items may be alike, and networks with random weights have as little as 2 dB here, trained
ones as much as in the first ratio.

Below 6 dB the noise is more than half of the signal, as in an engine that returns the mean of the
rows of a batch. This is told as a limit of the verdict, for the whole and for each slice. It is a
mismatch if a slice has a sixteenth of the output's magnitude or less, as scores have beside boxes
of 640 pixels: such a slice must have a scale of its own, and so little noise that it would pass the
first ratio, too. Scores have the unit 1: a slice whose values stay below a sixteenth shows no
detection, no class and no keypoint, and is only told, as are slices of less than three values.

The noise of a few elements varies by chance. The sum of ``n`` squares has a chi-squared
distribution with ``n`` degrees of freedom. The noise may reach the value that only one sum in a
thousand exceeds. This value is computed by a formula of Wilson and Hilferty (Proceedings of the
National Academy of Sciences 17, 1931). In the second ratio the signal may be as small as only one
sum in a thousand is.

Noise may be small compared with an output, but large compared with the differences between scores
that decide a classification, for example if some classes always have the score -100. Therefore,
random noise is added to the model's outputs: twice the allowed noise, relative to the part of the
scores that varies from item to item. The engine must keep the best class of as many items as this
noise does. A largest value that is the same in all items decides nothing, and is not counted. If
the data have targets, accuracy may fall by 1 % and a margin for chance: the number of changed
predictions has a Poisson distribution, whose standard deviation is the root of the number.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from enginebay.tensors import is_float
from enginebay.verdict import Signal
from enginebay.verification.output_arrays import MIN_SLICE_VALUES, SMALL_SLICE_RATIO, as_numpy
from enginebay.verification.tolerance import EIGHT_BITS, tolerance_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from enginebay.tensors import Array, NumpyArray, Sample

    Row = tuple[Sample, Mapping[str, Array], int | None]

#: The allowed noise relative to the signal, as a fraction of the relative tolerance.
_NOISE_SHARE = 0.4

#: A factor of the noise, since the noise of 8 bits is not the same in all elements.
_UNEVEN_NOISE = 2.0

#: An output with more values does not hold the scores of classes.
_MAX_CLASSES = 1 << 18

#: The fraction of items on which an engine may be wrong while the model is right.
_MAX_ACCURACY_DROP = 0.01

#: The number of standard deviations that one in a thousand normally distributed values exceeds.
_ONE_IN_A_THOUSAND = 3.09

#: A slice is constant if it has less than this part of the model's variation, though that is more
#: than this part of the output's magnitude: four steps of 8 bits.
_CONSTANT_SHARE = 0.01
_RESOLVED_SHARE = 1 / 64

#: Scores that stay below this show nothing in any sample.
_FAINTEST_SCORE = 1 / 16

#: A description lists at most this many ranges of slices.
_MAX_RANGES = 3

#: Number of random draws of the noise, which estimate the fraction of changed classes.
_NOISE_DRAWS = 8


class _ElementSums:
    """Sums over samples of one shape, for each element: values, squares and noise."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.samples = 0
        self.counts = np.zeros(shape, np.int64)
        self.total, self.squares, self.noise, self.largest = np.zeros((4, *shape))
        self.found_total, self.found_squares = np.zeros((2, *shape))

    def add(self, expected: NumpyArray, found: NumpyArray) -> None:
        """Add a sample; values that are NaN or infinite do not count."""
        finite = np.isfinite(expected) & np.isfinite(found)
        left = np.where(finite, expected, 0).astype(np.float64)
        right = np.where(finite, found, 0).astype(np.float64)
        self.samples += 1
        self.counts += finite
        self.total += left
        self.squares += left * left
        self.noise += (right - left) ** 2
        self.found_total += right
        self.found_squares += right * right
        self.largest = np.maximum(self.largest, np.abs(left))

    def leave_out_means(self) -> tuple[NumpyArray, NumpyArray, NumpyArray]:
        """Return signal, noise and the engine's signal, without each element's own mean."""
        counts = np.maximum(self.counts, 1)
        signal = np.maximum(self.squares - self.total**2 / counts, 0)
        found = np.maximum(self.found_squares - self.found_total**2 / counts, 0)
        # The mean of the samples is nearer to them than the true mean.
        return signal, self.noise * (counts - 1) / counts, found


def measure_signals(
    samples: Sequence[Sample],
    found: Sequence[Mapping[str, Array]],
    *,
    precision: str,
    rtol: float | None = None,
    targets: Sequence[int | None] = (),
) -> tuple[Signal, ...]:
    """Return each output's signal-to-noise ratio, separately for data items and other samples.

    Args:
        samples: Inputs with the expected outputs. If a comparator compares an output, the output
            is a flat array of matched values, in the order of the values in ``found``. A value
            without a match is paired with 0, and counts as noise.
        found: The engine's outputs for each sample.
        precision: The precision of the engine; only int8 and fp8 are measured.
        rtol: Replaces the relative tolerance, from which the required ratio follows.
        targets: The index of each sample's true class, or None if unknown.
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
    """Return the signal-to-noise ratio of the output ``name`` over the samples in ``group``.

    The result is None if the output is constant, is not float, or has a wrong shape. ``place``
    describes the samples: ``items`` or ``the example``.
    """
    rows: list[tuple[NumpyArray, NumpyArray, int | None]] = []
    by_shape: dict[tuple[int, ...], _ElementSums] = {}
    for sample, outputs, target in group:
        if name not in sample.outputs:
            continue  # a comparator could not compare it, and the sample is a mismatch
        expected, _ = as_numpy(sample.outputs[name])
        found, _ = as_numpy(outputs[name]) if name in outputs else (expected[:0], "")
        if not is_float(expected) or expected.shape != found.shape:
            return None
        if expected.size:
            rows.append((expected, found, target))
            by_shape.setdefault(expected.shape, _ElementSums(expected.shape)).add(expected, found)
    sums = list(by_shape.values())
    count = sum(int(each.counts.sum()) for each in sums)
    if not count:
        return None
    # The mean is not part of the signal.
    mean_power = sum(float(each.total.sum()) for each in sums) ** 2 / count
    power = sum(float(each.squares.sum()) for each in sums) - mean_power
    if power <= 1e-12 * mean_power:  # the output varies by rounding only
        return None
    best = [(left.argmax(-1), right.argmax(-1)) for left, right, _ in rows if left.ndim]
    is_moving = len({left.tobytes() for left, _ in best}) > 1
    signal = Signal(
        output=name,
        place=place,
        samples=len(group),
        # A largest value that is always the same says nothing.
        agreed=sum(map(np.array_equal, *zip(*best, strict=True))) if is_moving else None,
        decibels=_to_decibels(power, sum(float(each.noise.sum()) for each in sums)),
        wanted=_required_decibels(count, rtol),
    )
    signal = _add_variation(signal, [each for each in sums if each.samples > 1])
    # The scores of one item: all axes but the last have size 1.
    shape = next(iter(by_shape))
    has_scores = shape[-1:] == (math.prod(shape),) and math.prod(shape) <= _MAX_CLASSES
    is_classifier = has_scores and len(rows) == len(group) > 1 == len(sums) and place == "items"
    return _add_accuracy(signal, rows) if is_classifier else signal


def _add_variation(signal: Signal, sums: Sequence[_ElementSums]) -> Signal:
    """Return a copy of ``signal`` with the ratio without each element's mean, and the lost slices.

    Return ``signal`` itself if no two samples have the same shape, or if they do not differ.
    """
    parts = [each.leave_out_means() for each in sums]
    power, noise, varied = (
        sum(float(arrays[index].sum()) for arrays in parts) for index in range(3)
    )
    squares = sum(float(each.squares.sum()) for each in sums)
    if power <= 1e-12 * squares:  # equal samples, apart from rounding
        return signal
    least = _chance_factor(sum((each.samples - 1) * each.total.size for each in sums), low=True)
    signal = msgspec.structs.replace(
        signal, varying=_to_decibels(power, noise), varying_wanted=10 * math.log10(least)
    )
    if not signal.passed:
        return signal
    if varied < _CONSTANT_SHARE * power and power > _RESOLVED_SHARE**2 * squares:
        return msgspec.structs.replace(signal, lost="[...]")
    lost, faint = _find_lost_slices(sums, 10 ** (-signal.wanted / 10))
    is_faint = not lost and power < _UNEVEN_NOISE**2 * least * noise
    return msgspec.structs.replace(signal, lost=lost, faint="[...]" if is_faint else faint)


def _find_lost_slices(sums: Sequence[_ElementSums], allowed: float) -> tuple[str, str]:
    """Describe the slices of an output whose noise is more than half of their signal.

    Args:
        sums: The sums of samples.
        allowed: The noise that is allowed in an output, relative to the power of its signal.

    Returns:
        The slices that are lost; and all others. Both are of one axis: one that has lost slices,
        and among such axes that with the worst slice.
    """
    worst, lost, faint = (0, 0.0), "", ""
    for each in sums:
        parts = (*each.leave_out_means(), each.squares)
        shape = each.total.shape
        for axis, size in enumerate(shape):
            rest = tuple(other for other in range(len(shape)) if other != axis)
            values = each.total.size // size
            if size < 2:
                continue
            power, noise, varied, squares = (array.sum(rest) for array in parts)
            whole = squares.mean()
            # Steps of 8 bits show such variations, and the engine shows none.
            is_constant = varied < _CONSTANT_SHARE * power
            is_constant &= power > _RESOLVED_SHARE**2 * whole
            clear = _UNEVEN_NOISE**2 * _chance_factor((each.samples - 1) * values, low=True)
            is_weak = (power > 1e-12 * whole) & (power < clear * noise) | is_constant
            is_small = squares * SMALL_SLICE_RATIO**2 <= whole
            is_shown = each.largest.max(rest) >= _FAINTEST_SCORE
            is_lost = is_weak & is_small & is_shown & (noise > allowed * squares)
            if values < MIN_SLICE_VALUES:  # of few values, noise may be large by chance
                is_weak, is_lost = is_lost, np.zeros_like(is_lost)
            else:
                is_lost |= is_constant
            if not is_weak.any():
                continue
            badness = int(is_lost.any()), float(np.max(noise[is_weak] / power[is_weak]))
            if badness > worst:
                worst, after = badness, len(shape) - 1 - axis
                lost, faint = (
                    _format_slices(flags, after) for flags in (is_lost, is_weak & ~is_lost)
                )
    return lost, faint


def _format_slices(flags: NumpyArray, after: int) -> str:
    """Format the slices as in Python: ``[..., 4:9, :]``; ``after`` is the number of axes behind."""
    places = np.flatnonzero(flags)
    runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1) if places.size else []
    texts = [
        f"[..., {run[0] if len(run) == 1 else f'{run[0]}:{run[-1] + 1}'}{', :' * after}]"
        for run in runs
    ]
    rest = sum(len(run) for run in runs[_MAX_RANGES:])
    return ", ".join(texts[:_MAX_RANGES]) + (f" and {rest} more" if rest else "")


def _to_decibels(power: float, noise: float) -> float | None:
    return 10 * math.log10(power / noise) if noise else None


def _add_accuracy(
    signal: Signal, rows: Sequence[tuple[NumpyArray, NumpyArray, int | None]]
) -> Signal:
    """Return a copy of ``signal`` with ``agreed_wanted`` set.

    If all true classes are known, the copy also has the accuracies of engine and model. Return
    ``signal`` itself if a score is NaN or infinite.
    """
    expected = np.stack([left.reshape(-1) for left, *_ in rows]).astype(np.float64)
    # Random noise cannot be added to NaN or infinity.
    if not np.isfinite(expected).all():
        return signal
    if signal.agreed is not None:
        required = _required_agreements(expected, signal.wanted)
        signal = msgspec.structs.replace(signal, agreed_wanted=required)
    targets = [-1 if target is None else target for *_, target in rows]
    if not all(0 <= target < expected.shape[1] for target in targets):
        return signal
    engine_right = np.equal([right.argmax() for _, right, _ in rows], targets)
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
    """Return for how many items the engine must predict the same class as the model.

    The number is estimated by adding random noise to ``outputs``, the model's scores.
    """
    varying = outputs - outputs.mean(0)
    noise = _UNEVEN_NOISE * math.sqrt(float(np.square(varying).mean()) / 10 ** (decibels / 10))
    random, best = np.random.default_rng(0), outputs.argmax(-1)
    drawn = (outputs + noise * random.standard_normal(outputs.shape) for _ in range(_NOISE_DRAWS))
    share = float(np.mean([noisy.argmax(-1) == best for noisy in drawn]))
    count = len(outputs)
    by_chance = _ONE_IN_A_THOUSAND * math.sqrt(count * share * (1 - share) + 1)
    return max(0, math.ceil(count * share - by_chance))


def _required_decibels(count: int, rtol: float) -> float:
    """Return the smallest signal-to-noise ratio in dB that passes, for ``count`` elements."""
    # The lower limit avoids the logarithm of 0 if the user passes rtol=0.
    allowed = -20 * math.log10(_NOISE_SHARE * max(rtol, 1e-9))
    return allowed - 10 * math.log10(_chance_factor(count))


def _chance_factor(count: int, *, low: bool = False) -> float:
    """Return the factor by which the sum of ``count`` squares exceeds its mean by chance.

    One sum in a thousand is larger, or with ``low`` smaller.
    """
    spread = 2 / (9 * count)
    deviation = _ONE_IN_A_THOUSAND * math.sqrt(spread)
    # Of very few squares, the sum may be as good as 0.
    return float(max(1 - spread + (-deviation if low else deviation), 1e-3) ** 3)
