"""The verdict on an engine: it runs in a child process, and its outputs are compared."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from enginebay.errors import ChildCrashedError, ChildTimeoutError, EnginebayError
from enginebay.inference import coarseness
from enginebay.tensors import load_samples
from enginebay.verdict import EXAMPLE, Verification
from enginebay.verification.engine_trial import run_trial
from enginebay.verification.group import Measure
from enginebay.verification.groups import aligned_sample, compare_sample, matchings, unproven
from enginebay.verification.output_arrays import equal, is_float, says_nothing, slices_apart
from enginebay.verification.signal import signals
from enginebay.verification.simulation import not_simulated, simulated
from enginebay.verification.tolerance import EIGHT_BITS, tolerance_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from enginebay.artifact import LoadRequest
    from enginebay.comparators import Comparator
    from enginebay.inference import Receipt
    from enginebay.tensors import NumpyArray, Sample
    from enginebay.verdict import Basis
    from enginebay.verification.output_arrays import Apart


def judge(
    request: LoadRequest,
    samples: Path,
    reference: str,
    *,
    missing: str = "",
    basis: Basis | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    comparators: Sequence[Comparator] = (),
    timeout: float,
) -> tuple[Verification, Receipt | None]:
    """Run an engine and compare its outputs with the reference's.

    One that cannot run here is judged by the graph that it is built from, which another engine
    runs; see :func:`~enginebay.verification.simulation.simulated`.

    Args:
        request: The engine.
        samples: A file of recorded samples: inputs with the reference's outputs.
        reference: What gave these outputs, for the verdict: ``the PyTorch model, unpatched``.
        basis: What the verdict rests on, with a label for each sample.
        missing: Why there is nothing to compare with, if so: the engine must load and run all the
            same.
        rtol: Replaces the relative tolerance.
        atol: Replaces the absolute tolerance.
        comparators: What compares outputs that are sets.
        timeout: Seconds that loading and all runs may take together.

    Returns:
        The verdict, ``crashed`` where the engine took its process down or did not end in time,
        ``unverified`` where something is missing; and the engine's receipt, None where it crashed
        or cannot run here.
    """
    judged = partial(
        _judge,
        *(request, samples, reference),
        missing=missing,
        basis=basis,
        measure=Measure("", rtol, atol),
        comparators=comparators,
        timeout=timeout,
    )
    if request.built_for is None:
        return judged()
    against = "" if missing else reference
    try:
        found = simulated(*judged(), request.built_for, against)
    except EnginebayError as err:
        found = not_simulated(request.built_for, str(err), against)
    # Whatever became of the graph, the engine will be held to the same samples.
    return msgspec.structs.replace(found, basis=basis), None


def _judge(
    request: LoadRequest,
    samples: Path,
    reference: str,
    *,
    missing: str,
    basis: Basis | None,
    measure: Measure,
    comparators: Sequence[Comparator],
    timeout: float,
) -> tuple[Verification, Receipt | None]:
    """Run what a request loads, the engine or its graph, and compare its outputs."""
    try:
        found, receipt = run_trial(request, samples, timeout=timeout)
    except (ChildCrashedError, ChildTimeoutError) as err:
        return Verification.crashed(str(err), reference="" if missing else reference), None
    fallbacks = receipt.fallbacks
    if missing:
        unverified = Verification.unverified(missing)
        return msgspec.structs.replace(unverified, fallbacks=fallbacks), receipt
    recorded = load_samples(samples)
    labels = (basis and basis.labels) or (EXAMPLE,) * len(recorded)
    given = list(zip(labels, recorded, found, strict=True))
    finite = [each for each in given if each[1].kind != "non_finite"]
    others = [each[1:] for each in given if each[1].kind == "non_finite"]
    labels = tuple(label for label, _, _ in finite)
    recorded, found = [sample for _, sample, _ in finite], [outputs for _, _, outputs in finite]
    allowed = request.allowed_precision()
    precision = min(receipt.precision, allowed, key=coarseness)
    apart = _apart(recorded, precision)
    measure = measure._replace(precision=precision)
    every = [sample.outputs for sample in recorded]
    compared = [
        compare_sample(
            *(sample.outputs, outputs, measure, comparators),
            apart={name: apart[name, array.shape] for name, array in sample.outputs.items()},
            every=every,
        )
        for sample, outputs in zip(recorded, found, strict=True)
    ]
    in_order = [
        aligned_sample(comparators, *each) for each in zip(recorded, found, compared, strict=True)
    ]
    verification = Verification.of(
        [one.outputs for one in compared],
        reference=reference,
        precision=receipt.precision,
        basis=basis and msgspec.structs.replace(basis, labels=labels),
        doubt=unproven(comparators, recorded, compared)
        or _unproven(recorded)
        or _insensitive(recorded, measure, comparators, apart),
        signals=signals(
            [sample for sample, _ in in_order],
            [outputs for _, outputs in in_order],
            precision=precision,
            rtol=measure.rtol,
            targets=[basis.targets.get(label) for label in labels] if basis else (),
        ),
        matchings=matchings(comparators, labels, compared),
        fallbacks=fallbacks,
    )
    verification = msgspec.structs.replace(
        verification, basis=basis, non_finite=_non_finite(others, measure)
    )
    if coarseness(receipt.precision) > coarseness(allowed):
        reason = f"the engine computed in {receipt.precision}, and {allowed} was requested"
        verification = msgspec.structs.replace(verification, verdict="mismatched", reason=reason)
    return verification, receipt


def _non_finite(samples: Sequence[tuple[Sample, dict[str, NumpyArray]]], measure: Measure) -> str:
    """What an engine makes of NaN and infinity, if the model does not; else empty."""
    for sample, found in samples:
        if not found:
            return "the engine refuses or does not survive NaN and infinity in its inputs"
        outputs = compare_sample(sample.outputs, found, measure).outputs
        worst = max(outputs, key=lambda output: output.badness)
        if not worst.passed:
            detail = worst.reason
            if worst.worst_index is not None:
                detail = f"{worst.worst_found} where the model gives {worst.worst_expected}"
            return (
                "where inputs hold NaN or infinity, the engine differs: "
                f'"{worst.name}" has {detail}'
            )
    return ""


def _insensitive(
    samples: Sequence[Sample],
    measure: Measure,
    comparators: Sequence[Comparator],
    apart: Mapping[tuple[str, tuple[int, ...]], Apart],
) -> str:
    """Which output varies by less than its tolerance from sample to sample; empty where none does.

    An engine that ignores the input would pass: temperatures of 300 K, give or take 0.05.
    """
    first, *others = samples
    if measure.precision in EIGHT_BITS:  # its signal is measured instead
        return ""
    named = {name for one in comparators for name in one.outputs}
    varying: dict[str, float] = {}
    for other in others:
        outputs = {
            name: array
            for name, array in other.outputs.items()
            if name not in named and is_float(array) and array.shape == first.outputs[name].shape
        }
        expected = {name: first.outputs[name] for name in outputs}
        compared = compare_sample(
            *(expected, outputs, measure),
            apart={name: apart[name, array.shape] for name, array in outputs.items()},
        )
        for one in compared.outputs:
            if one.max_abs_error:
                share = (
                    math.inf
                    if not one.passed
                    else (one.rtol_that_passes or 0.0) / (one.rtol or 1.0)
                )
                varying[one.name] = max(varying.get(one.name, 0.0), share)
    for name, share in varying.items():
        if share <= 1:
            return (
                f"'{name}' varies over the samples by {share:.2g} of its own tolerance, so that "
                "an engine that ignores the inputs would pass; lower --rtol, or take a constant "
                "out of the output"
            )
    return ""


def _apart(samples: Sequence[Sample], precision: str) -> dict[tuple[str, tuple[int, ...]], Apart]:
    """The slices with a magnitude of their own, by output and shape, over all samples."""
    groups: dict[tuple[str, tuple[int, ...]], list[NumpyArray]] = {}
    for sample in samples:
        for name, array in sample.outputs.items():
            groups.setdefault((name, array.shape), []).append(array)
    return {
        (name, shape): slices_apart(
            [array for array in arrays if is_float(array)],
            noise=tolerance_for(arrays[0].dtype.name, precision).noise or 0.0,
        )
        for (name, shape), arrays in groups.items()
    }


def _unproven(samples: Sequence[Sample]) -> str:
    """Why agreement on these samples proves nothing; empty where it does prove something."""
    outputs = [list(sample.outputs.values()) for sample in samples]
    if all(says_nothing(array) for arrays in outputs for array in arrays):
        return "the model gives nothing but NaN and infinity"
    others = [sample for sample in samples[1:] if not equal(sample.inputs, samples[0].inputs)]
    if others and all(equal(sample.outputs, samples[0].outputs) for sample in others):
        return (
            f"no output changes between the {len(samples)} samples; give an example whose values "
            "matter to the model"
        )
    return ""
