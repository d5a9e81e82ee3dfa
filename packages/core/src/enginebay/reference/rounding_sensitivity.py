"""Samples on which rounding alone decides the model's outputs.

A network may amplify rounding errors without bound. An instance norm of equal values divides their
rounding errors by a standard deviation near 0, and a network whose values grow from layer to layer
is chaotic. For such inputs, the outputs of PyTorch and of an engine may differ, and both are right.

Monte Carlo arithmetic (Parker, 1997) distinguishes such inputs from a wrong engine: the model runs
again in PyTorch, without rewriters, with random rounding errors in every sum, difference and
quotient. These stand for the errors of engines, which add in another order, use fused multiply-add,
and multiply by the reciprocal of a divisor. The errors do not matter if the model returns the same
outputs in double precision, with and without rounding errors in inputs and weights: far from 0, a
sigmoid is 1 in every engine.

Random rounding errors rarely change a decision (a step function, the order of equal values in a
sort). Therefore, further runs perturb the inputs of decisions, but no sums.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from enginebay.errors import ModelError
from enginebay.reference.probe_values import is_constant
from enginebay.reference.recorded_samples import RecordedModel, measure_range
from enginebay.tensors import is_float
from enginebay.verification import ROUNDING, ToleranceOptions, compare_sample, tolerance_for

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from enginebay.comparators import Comparator
    from enginebay.models import BoundModel
    from enginebay.tensors import NumpyArray, Sample
    from enginebay.verdict import OutputComparison, Verification
    from enginebay.verification import RecordedReference

#: Numbers of runs with random rounding errors, and with perturbed decisions. A single run may leave
#: a score on the same side of a threshold, or two equal values in the same order.
_ROUNDING_RUNS = 3
_DECISION_RUNS = 8

#: The error of a sum of products in roundings: the factor of 4 for sums in :mod:`.tolerance`.
_SUM_ROUNDINGS = 4.0

#: The longest sums have a factor of 128 in :mod:`.tolerance`, 32 times as much.
_LONGEST_SUM_FACTOR = 32.0

#: A model with more parameters is not copied to double precision: 1 GiB of weights.
_MAX_COPIED_PARAMETERS = 1 << 27

#: Decisions are perturbed by the error of the longest sums, or by the tolerance if that is less, as
#: in half precision. Decisions that no run has changed may have twice the effect.
_DECISION_FACTOR = 2.0


class _RequiredTolerances(NamedTuple):
    """Tolerances with which an output passes, and the number of its mismatched elements.

    A tolerance is infinite if no finite one lets the output pass.
    """

    rtol: float = 0.0
    atol: float = 0.0
    mismatches: float = 0.0


def drop_undecided_probes(
    recorded: RecordedReference, found: Verification, comparators: Sequence[Comparator] = ()
) -> RecordedModel | None:
    """Drop the probe inputs (generated) on which rounding errors explain an engine's mismatch.

    The caller must then compare the engine again, since it may be wrong on the other samples.
    Samples that the user passed are not dropped, but listed in ``basis.undecided``.

    Args:
        recorded: The samples on which an engine was compared.
        found: The engine's verdict.
        comparators: Comparators for outputs that are compared as sets, such as detections.

    Returns:
        The remaining samples, with each dropped probe input in ``basis.dropped``. None if rounding
        errors change the model's own outputs too little to explain the mismatch, or if PyTorch
        cannot run the model.
    """
    if not isinstance(recorded, RecordedModel):
        return None
    figures = found.simulation or found
    model, options = recorded.model, ToleranceOptions(figures.precision)
    failed = [
        output
        for output in figures.outputs
        if not output.passed and output.sample not in recorded.basis.undecided
    ]
    if not failed or options.precision not in ROUNDING:
        return None
    samples = dict(zip(recorded.basis.labels, recorded.samples, strict=True))
    undecided: set[str] = set()
    for label in dict.fromkeys(output.sample for output in failed):
        by_rounding = _measure_sensitivity(model, samples[label], options, comparators)
        for output in failed:
            limit = by_rounding.get(output.name, _RequiredTolerances())
            if output.sample == label and _exceeds_rounding(output, limit):
                return None
        undecided.add(label)
    return _drop_probes(recorded, undecided)


def _measure_sensitivity(
    model: BoundModel, sample: Sample, options: ToleranceOptions, comparators: Sequence[Comparator]
) -> dict[str, _RequiredTolerances]:
    """Return output name → tolerances with which the model passes despite random rounding errors.

    The model runs in PyTorch. Outputs that pass with the tolerances in ``options`` are left out.
    """
    from enginebay.reference.perturbed_decisions import PerturbedDecisions
    from enginebay.reference.perturbed_rounding import PerturbedRounding

    unit = ROUNDING[options.precision]
    longest_sum = _SUM_ROUNDINGS * _LONGEST_SUM_FACTOR * unit
    decision_error = min(longest_sum, tolerance_for("float32", options.precision).rtol)
    decisions = [PerturbedDecisions(decision_error, seed) for seed in range(_DECISION_RUNS)]
    modes: list[tuple[Any, float]] = [(mode, _DECISION_FACTOR) for mode in decisions]
    # PyTorch adds equal values in pairs, so its own doubles do not show how other engines drift.
    floats = [array for array in sample.inputs.values() if is_float(array)]
    equal = bool(floats) and all(map(is_constant, floats))
    if equal or not _is_stable(model, sample, options, comparators):
        modes += [
            (PerturbedRounding(_SUM_ROUNDINGS * unit, seed, equal=equal), _LONGEST_SUM_FACTOR)
            for seed in range(_ROUNDING_RUNS)
        ]
    required: dict[str, _RequiredTolerances] = {}
    for mode, factor in modes:
        # Without such operators, each of these runs would return the same.
        if mode in decisions[1:] and not decisions[0].decides:
            continue
        with mode:
            try:
                outputs = model.run(sample.inputs)
            except ModelError:  # the perturbed values took a branch that fails
                continue
        for output in compare_sample(sample.outputs, outputs, options, comparators).outputs:
            if not output.passed:
                largest = required.get(output.name, _RequiredTolerances())
                pairs = zip(largest, _read_required(output), strict=True)
                required[output.name] = _RequiredTolerances(
                    *(max(old, factor * new) for old, new in pairs)
                )
    return required


def _is_stable(
    model: BoundModel, sample: Sample, options: ToleranceOptions, comparators: Sequence[Comparator]
) -> bool:
    """Return True if the model in double precision returns the sample's outputs, within tolerance.

    The model runs twice: without noise, and with noise in the inputs and the weights.
    """
    import torch

    unit = _SUM_ROUNDINGS * ROUNDING[options.precision]
    random = np.random.default_rng(0)

    def widen_input(array: NumpyArray, example: NumpyArray, error: float) -> NumpyArray:
        if array.dtype != np.float32:
            return array
        # Whole numbers (pixels, counts) are exact in every engine.
        if not error or (example == np.round(example)).all():
            return array.astype(np.float64)
        size = float(np.square(example).mean()) ** 0.5
        return np.asarray(array + error * size * random.standard_normal(array.shape))

    parameters = list(model.source.module.parameters())
    if sum(weights.numel() for weights in parameters) > _MAX_COPIED_PARAMETERS:
        return False
    try:
        for error in (0.0, unit):
            copies = model.doubled.source.module.parameters()
            for copy, weights in zip(copies, parameters, strict=True):
                # The copy has the perturbed weights of the previous run.
                copy.data.copy_(weights)
                if error:
                    noise = torch.as_tensor(random.standard_normal(copy.shape, np.float32))
                    copy.data *= 1 + error * noise.to(copy)
            outputs = model.doubled.run(
                {
                    name: widen_input(array, model.examples[name], error)
                    for name, array in sample.inputs.items()
                }
            )
            narrowed = {
                name: array.astype(sample.outputs[name].dtype) for name, array in outputs.items()
            }
            comparison = compare_sample(sample.outputs, narrowed, options, comparators)
            if not all(output.passed for output in comparison.outputs):
                return False
    except Exception:  # noqa: BLE001  # a model that cannot be copied, or lacks kernels for doubles
        return False
    return True


def _exceeds_rounding(output: OutputComparison, limit: _RequiredTolerances) -> bool:
    required = _read_required(output)
    if math.isfinite(required.rtol) or required.mismatches > limit.mismatches:
        return required.rtol > limit.rtol or required.mismatches > limit.mismatches
    # No rtol would pass, so the absolute errors decide.
    return math.isfinite(limit.rtol) or required.atol > limit.atol


def _read_required(output: OutputComparison) -> _RequiredTolerances:
    rtol, atol = output.rtol_that_passes, output.atol_that_passes
    return _RequiredTolerances(
        math.inf if rtol is None else rtol,
        math.inf if atol is None else atol,
        output.mismatched_count,
    )


def _drop_probes(recorded: RecordedModel, undecided: Collection[str]) -> RecordedModel:
    basis = recorded.basis
    pairs = list(zip(basis.labels, recorded.samples, strict=True))
    dropped = [label for label, sample in pairs if label in undecided and sample.kind == "probe"]
    pairs = [(label, sample) for label, sample in pairs if label not in dropped]
    samples = tuple(sample for _, sample in pairs)
    reasons = (f"{label}: rounding alone decides what the model returns" for label in dropped)
    basis = msgspec.structs.replace(
        basis,
        labels=tuple(label for label, _ in pairs),
        beyond=tuple(label for label in basis.beyond if label not in dropped),
        dropped=(*basis.dropped, *reasons),
        undecided=(*basis.undecided, *undecided),
        range=measure_range(recorded.model, samples, recorded.engine_inputs),
    )
    return replace(recorded, samples=samples, basis=basis)
