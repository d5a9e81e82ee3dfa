"""Samples, and elements of outputs, that the model's own rounding decides.

A network may amplify rounding errors without bound. An instance norm of equal values divides their
rounding errors by a standard deviation near 0, and a network whose values grow from layer to layer
is chaotic. For such inputs, the outputs of PyTorch and of an engine may differ, and both are right.

Monte Carlo arithmetic (Parker, 1997) distinguishes such inputs from a wrong engine: the model runs
again in PyTorch, without rewriters, with random rounding errors in every sum, difference and
quotient. These stand for the errors of engines, which add in another order, use fused multiply-add,
and multiply by the reciprocal of a divisor. The errors do not matter if the model returns the same
outputs in double precision, with and without rounding errors in inputs and weights: far from 0, a
sigmoid is 1 in every engine.

If only a few elements of an output differ, and the engine is as near to double precision there as
PyTorch is, the sample is kept, and these elements are allowed their rounding. This is the case of a
slice of small values, which the default tolerance takes for exact, that come from large ones.

Random rounding errors rarely change a decision (a step function, the order of equal values in a
sort). Therefore, further runs perturb the inputs of decisions, but no sums.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from enginebay.errors import EnginebayError, ModelError
from enginebay.evaluator import Perturbation, rerun_file
from enginebay.reference.probe_values import is_constant
from enginebay.reference.recorded_samples import measure_range
from enginebay.reference.seen_decisions import find_decisions
from enginebay.tensors import is_float
from enginebay.verdict import Rounding
from enginebay.verification import (
    ROUNDING,
    ToleranceOptions,
    allowed_errors,
    compare_sample,
    tolerance_for,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from enginebay.comparators import Comparator
    from enginebay.models import BoundModel
    from enginebay.reference.recorded_samples import RecordedModel
    from enginebay.tensors import NumpyArray, Sample
    from enginebay.verdict import OutputComparison
    from enginebay.verification import Evidence

    Arrays = Mapping[str, NumpyArray]

#: Numbers of runs with random rounding errors, and with perturbed decisions. A single run may leave
#: a score on the same side of a threshold, or two equal values in the same order.
_ROUNDING_RUNS = 3
_DECISION_RUNS = 8

#: CPU seconds for other runs of a file. The samples that are left then are not examined.
_FILE_SECONDS = 30.0

#: The error of a sum of products in roundings: the factor of 4 for sums in :mod:`.tolerance`.
_SUM_ROUNDINGS = 4.0

#: The longest sums have a factor of 128 in :mod:`.tolerance`, 32 times as much.
_LONGEST_SUM_FACTOR = 32.0

#: Floats are nearly equal if they vary by less than this part of the example's variation: a model's
#: biases then decide what is summed.
_NEARLY_EQUAL = 1e-2

#: A model with more parameters is not copied to double precision: 1 GiB of weights.
_MAX_COPIED_PARAMETERS = 1 << 27

#: Decisions are perturbed by the error of the longest sums, or by the tolerance if that is less, as
#: in half precision. Decisions that no run has changed may have twice the effect.
_DECISION_FACTOR = 2.0

#: The share of an output's elements that may lie beyond the tolerance by rounding; one element may
#: in any case. A model with more such elements is chaotic, and proves nothing.
_MAX_ROUNDED_SHARE = 1 / 64

#: Random errors of some runs underestimate the largest one, and another machine computes other
#: errors than this one: both by less than this factor.
_MACHINE_FACTOR = 2.0


class _RequiredTolerances(NamedTuple):
    """Tolerances with which an output passes, and the number of its mismatched elements.

    A tolerance is infinite if no finite one lets the output pass.
    """

    rtol: float = 0.0
    atol: float = 0.0
    mismatches: float = 0.0


class _Explanation(NamedTuple):
    """What rounding explains on one sample.

    Attributes:
        rounding: Output name → how far its elements may lie beyond the tolerance. If all mismatches
            of the sample are explained by this, the sample is kept.
        is_complete: True if rounding explains all mismatches of the sample.
    """

    rounding: dict[str, Rounding]
    is_complete: bool


def settle_rounding(recorded: RecordedModel, evidence: Evidence) -> Evidence:
    """Leave out the probe inputs (generated) on which rounding errors explain an engine's mismatch.

    A probe on which rounding alone decides must not excuse an error on another one, so each sample
    with a mismatch is explained on its own; the first one that rounding does not explain ends the
    search. Samples that the user passed are not left out, but listed in ``basis.undecided``. If
    rounding explains the few elements of a sample that differ, the sample is kept in either case,
    and ``basis.rounding`` allows these errors.

    Args:
        recorded: The samples on which the engine was compared, with the model.
        evidence: The engine's outputs on these samples.

    Returns:
        The evidence without the samples that are left out, each of which is in ``basis.dropped``.
        A mismatch remains if rounding errors change the model's own outputs too little to explain
        it, or if PyTorch cannot run the model.
    """
    if evidence.options.precision not in ROUNDING or not evidence.failed:
        return evidence
    failed: dict[str, list[OutputComparison]] = {}
    # The worst samples come first: they are the most likely not to be explained.
    worst = [output.sample for output in evidence.worst_outputs if not output.passed]
    for label in (*worst, *evidence.failed):
        failed[label] = []
    for label, output in evidence.labelled_outputs:
        if not output.passed and label in failed:
            failed[label].append(output)
    samples = dict(zip(recorded.basis.labels, recorded.samples, strict=True))
    found = {label: outputs for label, _, outputs in evidence.runs}
    undecided: list[str] = []
    unexamined: list[str] = []
    rounding = dict(evidence.basis.rounding)
    start = _measure_children()
    for number, (label, outputs) in enumerate(failed.items()):
        # The evaluator runs in child processes, PyTorch does not.
        if number and _measure_children() - start > _FILE_SECONDS:
            unexamined = [*failed][number:]
            break
        explanation = _explain(recorded.model, samples[label], found[label], outputs, evidence)
        if not explanation.is_complete:
            break
        if explanation.rounding:
            rounding[label] = explanation.rounding
        else:
            undecided.append(label)
    basis = msgspec.structs.replace(evidence.basis, rounding=rounding, unexamined=tuple(unexamined))
    return _leave_out(recorded, replace(evidence, basis=basis), undecided)


def _measure_children() -> float:
    """Return the CPU seconds of all child processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def _explain(
    model: BoundModel,
    sample: Sample,
    found: Arrays,
    failed: Sequence[OutputComparison],
    evidence: Evidence,
) -> _Explanation:
    """Explain the mismatches of one sample by random rounding errors, or by close decisions."""
    options = ToleranceOptions(evidence.options.precision, scores=evidence.options.scores)
    doubled = _run_doubled(model, sample, options, evidence.comparators)
    equal = _has_equal_floats(sample.inputs, model.examples)
    compared = {name for each in evidence.comparators for name in each.outputs}
    few = evidence.options == options._replace(precision="fp32") and all(
        output.name in doubled.outputs and output.name not in compared and _differs_little(output)
        for output in failed
    )
    is_stable = doubled.is_stable and not equal
    runs = _run_rounded(model, sample, options, equal=equal) if few or not is_stable else ()
    rounded = list(runs)
    if few and rounded:
        allowed = {
            output.name: _measure_rounding(
                sample.outputs[output.name],
                found[output.name],
                doubled.outputs[output.name],
                [outputs[output.name] for outputs in rounded],
                evidence.small_slices.get(output.name, {}),
            )
            for output in failed
        }
        rounding = {name: limit for name, limit in allowed.items() if limit is not None}
        if len(rounding) == len(failed):
            return _Explanation(rounding, is_complete=True)
    # The runs with rounding errors would excuse a saturated function, which is 1 in every engine.
    by_rounding = _measure_sensitivity(
        model, sample, () if is_stable else rounded, options, evidence.comparators
    )
    exceeds = (
        _exceeds_rounding(output, by_rounding.get(output.name, _RequiredTolerances()))
        for output in failed
    )
    return _Explanation({}, is_complete=not any(exceeds))


def _differs_little(output: OutputComparison) -> bool:
    """Return True if only some of an output's elements differ, and a tolerance would pass."""
    count = output.mismatched_count
    return output.rtol_that_passes is not None and (
        0 < count <= max(1, output.total * _MAX_ROUNDED_SHARE)
    )


def _measure_rounding(
    expected: NumpyArray,
    found: NumpyArray,
    doubled: NumpyArray,
    rounded: Sequence[NumpyArray],
    small_slices: Mapping[tuple[int, int], NumpyArray],
) -> Rounding | None:
    """Return how far elements of an output may lie beyond the tolerance; None if none may.

    Each element must differ by no more than random rounding errors change it, or another element of
    its small slice, and by no more than the tolerance of the whole output. And the engine must be
    as near to double precision as PyTorch is.

    Args:
        expected: The output in single precision, from PyTorch.
        found: The engine's output.
        doubled: The output in double precision.
        rounded: The output in single precision, with random rounding errors.
        small_slices: By axis and its length, a mask of the slices with tolerances of their own.
    """
    others = (found, doubled, *rounded)
    if not all(other.shape == expected.shape and np.isfinite(other).all() for other in others):
        return None
    errors = np.abs(found.astype(np.float64) - expected)
    differs = errors > allowed_errors(expected, "fp32", small_slices)
    by_rounding = np.max([np.abs(other - expected) for other in rounded], 0)
    for (axis, length), is_small in small_slices.items():
        if length == expected.shape[axis]:
            axes = tuple(each for each in range(expected.ndim) if each != axis)
            slices = by_rounding.max(axes, keepdims=True)
            by_rounding = np.where(
                is_small.reshape(slices.shape), np.maximum(by_rounding, slices), by_rounding
            )
    largest = np.minimum(_MACHINE_FACTOR * by_rounding, allowed_errors(expected, "fp32", {}))
    inaccuracy = np.abs(found - doubled)[differs].max(initial=0)
    if (errors > largest)[differs].any() or (
        inaccuracy > _SUM_ROUNDINGS * np.abs(expected - doubled).max()
    ):
        return None
    return Rounding(
        elements=math.ceil(_MACHINE_FACTOR * int(np.count_nonzero(differs))),
        error=_MACHINE_FACTOR * float(errors[differs].max(initial=0)),
    )


def _measure_sensitivity(
    model: BoundModel,
    sample: Sample,
    rounded: Sequence[Arrays],
    options: ToleranceOptions,
    comparators: Sequence[Comparator],
) -> dict[str, _RequiredTolerances]:
    """Return output name → tolerances with which the model passes despite other roundings.

    Outputs that pass with the tolerances in ``options`` are left out. ``rounded`` has the outputs
    of runs with random rounding errors; runs with other decisions are added.
    """
    runs = [(outputs, _LONGEST_SUM_FACTOR) for outputs in rounded]
    runs += [(outputs, _DECISION_FACTOR) for outputs in _run_redecided(model, sample, options)]
    required: dict[str, _RequiredTolerances] = {}
    for outputs, factor in runs:
        for output in compare_sample(sample.outputs, outputs, options, comparators).outputs:
            if not output.passed:
                largest = required.get(output.name, _RequiredTolerances())
                pairs = zip(largest, _read_required(output), strict=True)
                required[output.name] = _RequiredTolerances(
                    *(max(old, factor * new) for old, new in pairs)
                )
    return required


def _has_equal_floats(inputs: Mapping[str, NumpyArray], examples: Mapping[str, NumpyArray]) -> bool:
    """Return True if the floats are equal, or so close to each other that most sums are of equals.

    PyTorch adds equal values in pairs, so its own doubles do not show how other engines drift.
    """
    floats = [name for name, array in inputs.items() if is_float(array)]
    return bool(floats) and all(
        is_constant(inputs[name])
        or bool(np.std(inputs[name]) <= _NEARLY_EQUAL * np.std(examples[name]))
        for name in floats
    )


def _run_rounded(
    model: BoundModel, sample: Sample, options: ToleranceOptions, *, equal: bool
) -> Iterator[Arrays]:
    """Yield the outputs of runs with random rounding errors."""
    unit = _SUM_ROUNDINGS * ROUNDING[options.precision]
    if model.signature is None:
        runs = [Perturbation(unit, n) for n in range(_ROUNDING_RUNS)]
        for outputs in _rerun_file(model, sample, runs):
            yield _narrow(outputs, sample)
        return
    from enginebay.reference.perturbed_rounding import PerturbedRounding

    for seed in range(_ROUNDING_RUNS):
        yield from _run_under(PerturbedRounding(unit, seed, equal=equal), model, sample)


def _run_redecided(
    model: BoundModel, sample: Sample, options: ToleranceOptions
) -> Iterator[Arrays]:
    """Yield the outputs of runs in PyTorch in which close decisions may be different."""
    if model.signature is None:
        return
    from enginebay.reference.perturbed_decisions import PerturbedDecisions

    longest_sum = _SUM_ROUNDINGS * _LONGEST_SUM_FACTOR * ROUNDING[options.precision]
    error = min(longest_sum, tolerance_for("float32", options.precision).rtol)
    for seed in range(_DECISION_RUNS):
        mode = PerturbedDecisions(error, seed)
        yield from _run_under(mode, model, sample)
        # Without such operators, each of these runs would return the same.
        if not mode.decides:
            return


def _run_under(mode: Any, model: BoundModel, sample: Sample) -> Iterator[Arrays]:
    with mode:
        try:
            outputs = model.run(sample.inputs)
        except ModelError:  # the perturbed values took a branch that fails
            return
    yield outputs


class _Doubled(NamedTuple):
    """A run of the model in double precision.

    Attributes:
        outputs: The outputs; empty if the model cannot be copied to double precision.
        is_stable: True if these are the sample's outputs within tolerance, even with noise in the
            inputs and the weights.
    """

    outputs: Arrays
    is_stable: bool = False


def _run_doubled(
    model: BoundModel, sample: Sample, options: ToleranceOptions, comparators: Sequence[Comparator]
) -> _Doubled:
    """Run the model in double precision: without noise and, if it agrees, with noise."""
    unit = _SUM_ROUNDINGS * ROUNDING[options.precision]
    if model.signature is None:
        doubles = [Perturbation(unit, seed, is_double=True) for seed in (None, 0)]
        runs = _rerun_file(model, sample, doubles)
        agree = [_agrees(sample, outputs, options, comparators) for outputs in runs]
        return _Doubled(runs[0] if runs else {}, is_stable=len(agree) == 2 and all(agree))
    import torch

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
        return _Doubled({})
    exact: Arrays = {}
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
            exact = exact or outputs
            if not _agrees(sample, outputs, options, comparators):
                return _Doubled(exact)
    except Exception:  # noqa: BLE001  # a model that cannot be copied, or lacks kernels for doubles
        return _Doubled(exact)
    return _Doubled(exact, is_stable=True)


def _agrees(
    sample: Sample, outputs: Arrays, options: ToleranceOptions, comparators: Sequence[Comparator]
) -> bool:
    """Return True if outputs in double precision are the sample's, within tolerance."""
    comparison = compare_sample(sample.outputs, _narrow(outputs, sample), options, comparators)
    return all(output.passed for output in comparison.outputs)


def _narrow(outputs: Arrays, sample: Sample) -> Arrays:
    return {name: array.astype(sample.outputs[name].dtype) for name, array in outputs.items()}


def _rerun_file(
    model: BoundModel, sample: Sample, runs: Sequence[Perturbation]
) -> list[dict[str, NumpyArray]]:
    """Run an ONNX file again; return nothing if the evaluator fails."""
    assert model.source.ir is not None
    try:
        return rerun_file(model.source.ir.path, sample.inputs, runs)
    except EnginebayError:
        return []


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


def _leave_out(recorded: RecordedModel, evidence: Evidence, undecided: Collection[str]) -> Evidence:
    """Return the evidence without the probe inputs among the samples in ``undecided``."""
    basis = evidence.basis
    rows = list(zip(basis.labels, evidence.recorded, evidence.found, strict=True))
    dropped = [label for label, sample, _ in rows if label in undecided and sample.kind == "probe"]
    rows = [row for row in rows if row[0] not in dropped]
    basis = msgspec.structs.replace(
        basis,
        labels=tuple(label for label, *_ in rows),
        beyond=tuple(label for label in basis.beyond if label not in dropped),
        dropped=(
            *basis.dropped,
            *(f"{label}: rounding alone decides what the model returns" for label in dropped),
        ),
        undecided=(*basis.undecided, *undecided),
    )
    if dropped:
        labelled = zip(recorded.basis.labels, recorded.samples, recorded.runs, strict=True)
        kept = [(sample, run) for label, sample, run in labelled if label not in dropped]
        samples, runs = zip(*kept, strict=True)
        basis = msgspec.structs.replace(
            basis,
            range=measure_range(recorded.model, samples, recorded.engine_inputs),
            decisions=find_decisions(samples, runs, evidence.comparators) if any(runs) else (),
        )
    return replace(
        evidence,
        recorded=[sample for _, sample, _ in rows],
        found=[outputs for _, _, outputs in rows],
        basis=basis,
    )
