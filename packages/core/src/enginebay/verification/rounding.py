"""Probes on which rounding alone decides what a model gives.

A network may amplify rounding without bound: an instance norm divides a plane of equal values,
which differ by a rounding or by none, by next to nothing, and a network whose values grow from
layer to layer is chaotic. What PyTorch gives for such inputs is one of many results that are as
right, and an engine's is another.

Monte Carlo arithmetic (Parker, 1997) tells such inputs from an engine that is wrong: the model runs
again, in PyTorch and with no rewriter, while every sum, difference and quotient is off by roundings
at random. These are the sums that engines add up in another order, the differences that they take
without rounding a product first, and the quotients that they multiply for.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from enginebay.errors import ModelError
from enginebay.verification.group import Measure
from enginebay.verification.groups import compare_sample
from enginebay.verification.output_arrays import is_float
from enginebay.verification.probes import is_constant
from enginebay.verification.tolerance import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from enginebay.comparators import Comparator
    from enginebay.models import BoundModel
    from enginebay.tensors import Sample
    from enginebay.verdict import OutputComparison, Verification
    from enginebay.verification.recording import RecordedReference

#: Runs with other roundings; one may leave a score on its side of a threshold.
_RUNS = 3

#: Roundings of a sum of products: the factor of 4 for sums in :mod:`.tolerance`.
_OF_A_SUM = 4.0

#: The longest sums have a factor of 128 there: an engine may be so many times further off.
_FURTHER = 32.0


def without_rounding(
    recorded: RecordedReference, found: Verification, comparators: Sequence[Comparator] = ()
) -> RecordedReference | None:
    """What was recorded, without the probes on which an engine is worst by rounding alone.

    On the others it may be wrong as well, so that they are compared again.

    Args:
        recorded: The samples that an engine was compared on.
        found: The verdict on it.
        comparators: What compares outputs that are sets.

    Returns:
        The other samples, and each probe that is left out among ``basis.dropped``; None where the
        mismatch stands: the sample on which an output is worst is no probe, or rounding moves the
        model's own output by too little there.
    """
    figures = found.simulation or found
    model, measure = recorded.model, Measure(figures.precision)
    wrong = [output for output in figures.outputs if not output.passed]
    if model is None or not wrong or measure.precision not in ROUNDING:
        return None
    samples = dict(zip(recorded.basis.labels, recorded.samples, strict=True))
    decided: set[str] = set()
    for label in dict.fromkeys(output.sample for output in wrong):
        if samples[label].kind != "probe":
            return None
        moved = _moved_by_rounding(model, samples[label], measure, comparators)
        here = [output for output in wrong if output.sample == label]
        if any(_is_further(each, moved.get(each.name, (0.0, 0.0))) for each in here):
            return None
        decided.add(label)
    return _without(recorded, decided)


def _moved_by_rounding(
    model: BoundModel, sample: Sample, measure: Measure, comparators: Sequence[Comparator]
) -> dict[str, tuple[float, float]]:
    """How far rounding moves each output that it moves out of its tolerance, as :func:`_needed`."""
    from enginebay.verification.other_roundings import OtherRoundings  # imports torch

    moved: dict[str, tuple[float, float]] = {}
    equal = all(is_constant(array) for array in sample.inputs.values() if is_float(array))
    for seed in range(_RUNS):
        with OtherRoundings(_OF_A_SUM * ROUNDING[measure.precision], seed, equal=equal):
            try:
                outputs = model.run(sample.inputs)
            except ModelError:  # a branch that it does not take otherwise
                continue
        for output in compare_sample(sample.outputs, outputs, measure, comparators).outputs:
            if not output.passed:
                moved[output.name] = max(_needed(output), moved.get(output.name, (0.0, 0.0)))
    return moved


def _is_further(output: OutputComparison, moved: tuple[float, float]) -> bool:
    """True if an engine is too far off for rounding; a difference decides where a ratio cannot."""
    rtol, atol = _needed(output)
    if math.isfinite(rtol):
        return rtol > _FURTHER * moved[0]
    return math.isfinite(moved[0]) or atol > _FURTHER * moved[1]


def _needed(output: OutputComparison) -> tuple[float, float]:
    """The relative and the absolute tolerance that would pass, infinite where none would."""
    rtol, atol = output.rtol_that_passes, output.atol_that_passes
    return math.inf if rtol is None else rtol, math.inf if atol is None else atol


def _without(recorded: RecordedReference, decided: Collection[str]) -> RecordedReference:
    basis = recorded.basis
    pairs = zip(basis.labels, recorded.samples, strict=True)
    kept = [(label, sample) for label, sample in pairs if label not in decided]
    reasons = (
        f"{label}: rounding alone decides what the model gives"
        for label in basis.labels
        if label in decided
    )
    basis = msgspec.structs.replace(
        basis,
        labels=tuple(label for label, _ in kept),
        beyond=tuple(label for label in basis.beyond if label not in decided),
        dropped=(*basis.dropped, *reasons),
        undecided=(*basis.undecided, *decided),
    )
    return replace(recorded, samples=tuple(sample for _, sample in kept), basis=basis)
