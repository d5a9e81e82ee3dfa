"""Samples on which rounding alone decides what a model gives.

A network may amplify rounding without bound: an instance norm divides a plane of equal values,
which differ by a rounding or by none, by next to nothing, and a network whose values grow from
layer to layer is chaotic. What PyTorch gives for such inputs is one of many results that are as
right, and an engine's is another.

Monte Carlo arithmetic (Parker, 1997) tells such inputs from an engine that is wrong: the model runs
again, in PyTorch and with no rewriter, while every sum, difference and quotient is off by roundings
at random. These are the sums that engines add up in another order, the differences that they take
without rounding a product first, and the quotients that they multiply for. Where the model is sound
in double precision, though, and stays so when its inputs and weights are off by single roundings,
nothing hangs on such sums: the far end of a sigmoid is 1 in every engine.

Where a number lies at a step or between equals, a rounding in a thousand runs changes it, or none:
such decisions are made otherwise in runs of their own.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np

from enginebay.errors import ModelError
from enginebay.verification.group import Measure
from enginebay.verification.groups import compare_sample
from enginebay.verification.output_arrays import is_float
from enginebay.verification.probes import is_constant
from enginebay.verification.recorder import tried_sizes
from enginebay.verification.tolerance import ROUNDING, tolerance_for

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from enginebay.comparators import Comparator
    from enginebay.models import BoundModel
    from enginebay.tensors import NumpyArray, Sample
    from enginebay.verdict import OutputComparison, Verification
    from enginebay.verification.recorder import RecordedReference

#: Runs with other roundings, and with other decisions: one may leave a score on its side of a
#: threshold, or two equal values in their order.
_RUNS = 3
_DECISIONS = 8

#: Roundings of a sum of products: the factor of 4 for sums in :mod:`.tolerance`.
_OF_A_SUM = 4.0

#: The longest sums have a factor of 128 there: an engine may be so many times further off.
_FURTHER = 32.0

#: Weights that are copied to doubles: 1 GiB.
_COPIED = 1 << 27

#: A decision is made with the error of the longest sums, or the tolerance where that is less, as in
#: half precision; others may weigh twice as much.
_WEIGHTIER = 2.0


#: The tolerances that would pass, infinite where none would, and the places that need them.
_Needed: TypeAlias = tuple[float, float, float]
_NOTHING: _Needed = (0.0, 0.0, 0.0)


def without_rounding(
    recorded: RecordedReference, found: Verification, comparators: Sequence[Comparator] = ()
) -> RecordedReference | None:
    """What was recorded, without the probes on which an engine is worst by rounding alone.

    On the others it may be wrong as well, so that they are compared again. Samples of the caller's
    stay, and the verdict says that nothing is known there.

    Args:
        recorded: The samples that an engine was compared on.
        found: The verdict on it.
        comparators: What compares outputs that are sets.

    Returns:
        The other samples, and each probe that is left out among ``basis.dropped``; None where the
        mismatch stands: rounding moves the model's own output by too little there.
    """
    figures = found.simulation or found
    model, measure = recorded.model, Measure(figures.precision)
    wrong = [
        output
        for output in figures.outputs
        if not output.passed and output.sample not in recorded.basis.undecided
    ]
    if model is None or not wrong or measure.precision not in ROUNDING:
        return None
    samples = dict(zip(recorded.basis.labels, recorded.samples, strict=True))
    decided: set[str] = set()
    for label in dict.fromkeys(output.sample for output in wrong):
        moved = _moved_by_rounding(model, samples[label], measure, comparators)
        here = [output for output in wrong if output.sample == label]
        if any(_is_further(each, moved.get(each.name, _NOTHING)) for each in here):
            return None
        decided.add(label)
    return _without(recorded, decided)


def _moved_by_rounding(
    model: BoundModel, sample: Sample, measure: Measure, comparators: Sequence[Comparator]
) -> dict[str, _Needed]:
    """How far rounding may move each output, as :func:`_needed`, where it leaves its tolerance."""
    from enginebay.verification.other_decisions import OtherDecisions  # both import torch
    from enginebay.verification.other_roundings import OtherRoundings

    unit = ROUNDING[measure.precision]
    allowed = min(_OF_A_SUM * _FURTHER * unit, tolerance_for("float32", measure.precision).rtol)
    decisions = [OtherDecisions(allowed, seed) for seed in range(_DECISIONS)]
    modes: list[tuple[Any, float]] = [(mode, _WEIGHTIER) for mode in decisions]
    # PyTorch adds equal values in pairs, so that its own doubles do not tell how others drift.
    floats = [array for array in sample.inputs.values() if is_float(array)]
    equal = bool(floats) and all(map(is_constant, floats))
    if equal or not _is_sound(model, sample, measure, comparators):
        modes += [
            (OtherRoundings(_OF_A_SUM * unit, n, equal=equal), _FURTHER) for n in range(_RUNS)
        ]
    moved: dict[str, _Needed] = {}
    for mode, factor in modes:
        if mode in decisions[1:] and not decisions[0].decides:
            continue
        with mode:
            try:
                outputs = model.run(sample.inputs)
            except ModelError:  # a branch that it does not take otherwise
                continue
        for output in compare_sample(sample.outputs, outputs, measure, comparators).outputs:
            if not output.passed:
                pairs = zip(moved.get(output.name, _NOTHING), _needed(output), strict=True)
                rtol, atol, places = (max(old, factor * new) for old, new in pairs)
                moved[output.name] = rtol, atol, places
    return moved


def _is_sound(
    model: BoundModel, sample: Sample, measure: Measure, comparators: Sequence[Comparator]
) -> bool:
    """True if double precision gives the same, and inputs and weights may be off by roundings."""
    import torch

    unit = _OF_A_SUM * ROUNDING[measure.precision]
    random = np.random.default_rng(0)

    def widened(array: NumpyArray, example: NumpyArray, off: float) -> NumpyArray:
        if array.dtype != np.float32:
            return array
        if not off or (example == np.round(example)).all():
            return array.astype(np.float64)
        size = float(np.square(example).mean()) ** 0.5
        return np.asarray(array + off * size * random.standard_normal(array.shape))

    parameters = list(model.source.module.parameters())
    if sum(weights.numel() for weights in parameters) > _COPIED:
        return False
    try:
        for off in (0.0, unit):
            copies = model.doubled.source.module.parameters()
            for wide, weights in zip(copies, parameters, strict=True):
                wide.data.copy_(weights)
                if off:
                    errors = torch.as_tensor(random.standard_normal(wide.shape, np.float32))
                    wide.data *= 1 + off * errors.to(wide)
            outputs = model.doubled.run(
                {n: widened(array, model.examples[n], off) for n, array in sample.inputs.items()}
            )
            rounded = {n: array.astype(sample.outputs[n].dtype) for n, array in outputs.items()}
            compared = compare_sample(sample.outputs, rounded, measure, comparators)
            if not all(output.passed for output in compared.outputs):
                return False
    except Exception:  # noqa: BLE001  # what cannot be copied, or has no kernel for doubles
        return False
    return True


def _is_further(output: OutputComparison, moved: _Needed) -> bool:
    """True if an engine is too far off for rounding; a difference decides where a ratio cannot."""
    rtol, atol, places = _needed(output)
    if math.isfinite(rtol) or places > moved[2]:
        return rtol > moved[0] or places > moved[2]
    return math.isfinite(moved[0]) or atol > moved[1]


def _needed(output: OutputComparison) -> _Needed:
    rtol, atol = output.rtol_that_passes, output.atol_that_passes
    tolerances = [math.inf if each is None else each for each in (rtol, atol)]
    return tolerances[0], tolerances[1], output.mismatched_count


def _without(recorded: RecordedReference, decided: Collection[str]) -> RecordedReference:
    basis = recorded.basis
    pairs = list(zip(basis.labels, recorded.samples, strict=True))
    out = [label for label, one in pairs if label in decided and one.kind == "probe"]
    kept = [(label, sample) for label, sample in pairs if label not in out]
    samples = tuple(sample for _, sample in kept)
    reasons = (f"{label}: rounding alone decides what the model gives" for label in out)
    basis = msgspec.structs.replace(
        basis,
        labels=tuple(label for label, _ in kept),
        beyond=tuple(label for label in basis.beyond if label not in out),
        dropped=(*basis.dropped, *reasons),
        undecided=(*basis.undecided, *decided),
        tried=tried_sizes(recorded.model, samples) if recorded.model else {},
    )
    return replace(recorded, samples=samples, basis=basis)
