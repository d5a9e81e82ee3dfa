"""The verdict on an engine: a child process runs the engine, and its outputs are compared."""

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
from enginebay.verification.output_arrays import (
    equal_arrays,
    find_small_slices,
    is_all_non_finite,
    is_float,
)
from enginebay.verification.sample_comparison import (
    align_sample,
    compare_sample,
    find_blind_comparator,
    summarize_matchings,
)
from enginebay.verification.set_comparison import ToleranceOptions
from enginebay.verification.signal_to_noise import measure_signals
from enginebay.verification.simulation import build_simulated_verdict, build_unsimulated_verdict
from enginebay.verification.tolerance import EIGHT_BITS, tolerance_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from enginebay.artifact import LoadRequest
    from enginebay.comparators import Comparator
    from enginebay.inference import Receipt
    from enginebay.tensors import NumpyArray, Sample
    from enginebay.verdict import Basis
    from enginebay.verification.output_arrays import SmallSlices


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

    If this machine cannot run the engine, another engine runs the graph from which the engine is
    built; see :mod:`enginebay.verification.simulation`.

    Args:
        request: The engine to load and run.
        samples: A file of recorded samples: inputs with the reference's outputs.
        reference: Name of the reference in the verdict: ``the PyTorch model, unpatched``.
        basis: A label for each sample, and the cases that the samples do not cover.
        missing: The reason why the reference computed no outputs; empty if it computed them. The
            engine must load and run in either case.
        rtol: Replaces the relative tolerance.
        atol: Replaces the absolute tolerance.
        comparators: Comparators for outputs that are compared as sets, such as detections.
        timeout: Seconds that loading and all runs may take together.

    Returns:
        The verdict, and the engine's receipt. The verdict is ``crashed`` if the engine ended its
        process or timed out, ``unverified`` if the reference's outputs are missing. The receipt is
        None if the engine crashed or cannot run on this machine.
    """
    judge_run = partial(
        _judge_run,
        request,
        samples,
        reference,
        missing=missing,
        basis=basis,
        options=ToleranceOptions("", rtol, atol),
        comparators=comparators,
        timeout=timeout,
    )
    if request.built_for is None:
        return judge_run()
    against = "" if missing else reference
    try:
        verdict = build_simulated_verdict(*judge_run(), request.built_for, against)
    except EnginebayError as err:
        verdict = build_unsimulated_verdict(request.built_for, str(err), against)
    # A machine that the engine is built for will compare it on the same samples later.
    return msgspec.structs.replace(verdict, basis=basis), None


def _judge_run(
    request: LoadRequest,
    samples: Path,
    reference: str,
    *,
    missing: str,
    basis: Basis | None,
    options: ToleranceOptions,
    comparators: Sequence[Comparator],
    timeout: float,
) -> tuple[Verification, Receipt | None]:
    """Run the engine that ``request`` loads; return the verdict on its outputs, and its receipt."""
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
    rows = list(zip(labels, recorded, found, strict=True))
    non_finite = [row[1:] for row in rows if row[1].kind == "non_finite"]
    rows = [row for row in rows if row[1].kind != "non_finite"]
    labels = tuple(label for label, _, _ in rows)
    recorded, found = [sample for _, sample, _ in rows], [outputs for _, _, outputs in rows]
    allowed = request.allowed_precision()
    # An engine that computes less precisely than allowed does not get the larger tolerance.
    precision = min(receipt.precision, allowed, key=coarseness)
    small_slices = _find_common_slices(recorded, precision)
    options = options._replace(precision=precision)
    all_expected = [sample.outputs for sample in recorded]
    comparisons = [
        compare_sample(
            sample.outputs,
            outputs,
            options,
            comparators,
            small_slices=small_slices,
            all_expected=all_expected,
        )
        for sample, outputs in zip(recorded, found, strict=True)
    ]
    aligned = [
        align_sample(comparators, *row) for row in zip(recorded, found, comparisons, strict=True)
    ]
    verification = Verification.of(
        [comparison.outputs for comparison in comparisons],
        reference=reference,
        precision=receipt.precision,
        basis=basis and msgspec.structs.replace(basis, labels=labels),
        doubt=find_blind_comparator(comparators, recorded, comparisons)
        or _explain_missing_evidence(recorded)
        or _find_insensitive_output(recorded, options, comparators, small_slices),
        signals=measure_signals(
            [sample for sample, _ in aligned],
            [outputs for _, outputs in aligned],
            precision=precision,
            rtol=options.rtol,
            targets=[basis.targets.get(label) for label in labels] if basis else (),
        ),
        matchings=summarize_matchings(comparators, labels, comparisons),
        fallbacks=fallbacks,
    )
    # The basis of the record also has the label of the sample with NaN and infinity.
    verification = msgspec.structs.replace(
        verification, basis=basis, non_finite=_compare_non_finite(non_finite, options)
    )
    if coarseness(receipt.precision) > coarseness(allowed):
        reason = f"the engine computed in {receipt.precision}, but {allowed} was requested"
        verification = msgspec.structs.replace(verification, verdict="mismatched", reason=reason)
    return verification, receipt


def _compare_non_finite(
    samples: Sequence[tuple[Sample, dict[str, NumpyArray]]], options: ToleranceOptions
) -> str:
    """Describe how engine and model differ on inputs with NaN and infinity; "" if they agree."""
    for sample, found in samples:
        if not found:
            return "the engine raises an error or crashes on inputs with NaN and infinity"
        outputs = compare_sample(sample.outputs, found, options).outputs
        worst = max(outputs, key=lambda output: output.badness)
        if not worst.passed:
            detail = worst.reason
            if worst.worst_index is not None:
                detail = f"expected {worst.worst_expected}, found {worst.worst_found}"
            return (
                "on inputs with NaN or infinity the engine differs from the model: "
                f'"{worst.name}": {detail}'
            )
    return ""


def _find_insensitive_output(
    samples: Sequence[Sample],
    options: ToleranceOptions,
    comparators: Sequence[Comparator],
    small_slices: Mapping[str, SmallSlices],
) -> str:
    """Describe the first output whose changes between samples are within tolerance; "" if none."""
    # An engine that ignores its inputs would pass on it: temperatures of 300 K, give or take 0.05.
    first, *others = samples
    if options.precision in EIGHT_BITS:  # the signal-to-noise ratio is measured instead
        return ""
    compared_names = {name for comparator in comparators for name in comparator.outputs}
    #: By output, the largest change between samples divided by the tolerance.
    shares: dict[str, float] = {}
    for other in others:
        outputs = {
            name: array
            for name, array in other.outputs.items()
            if name not in compared_names
            and is_float(array)
            and array.shape == first.outputs[name].shape
        }
        expected = {name: first.outputs[name] for name in outputs}
        comparison = compare_sample(expected, outputs, options, small_slices=small_slices)
        for output in comparison.outputs:
            if output.max_abs_error:
                required = output.rtol_that_passes or 0.0
                share = required / (output.rtol or 1.0) if output.passed else math.inf
                shares[output.name] = max(shares.get(output.name, 0.0), share)
    for name, share in shares.items():
        if share <= 1:
            return (
                f"'{name}' varies between samples by only {share:.2g} times its tolerance, so an "
                "engine that ignores the inputs would pass; lower --rtol, or remove a constant "
                "from the output"
            )
    return ""


def _find_common_slices(samples: Sequence[Sample], precision: str) -> dict[str, SmallSlices]:
    """Return output name → the result of :func:`find_small_slices` for all samples."""
    outputs: dict[str, list[NumpyArray]] = {}
    for sample in samples:
        for name, array in sample.outputs.items():
            if is_float(array):
                outputs.setdefault(name, []).append(array)
    return {
        name: find_small_slices(
            arrays, noise=tolerance_for(arrays[0].dtype.name, precision).noise or 0.0
        )
        for name, arrays in outputs.items()
    }


def _explain_missing_evidence(samples: Sequence[Sample]) -> str:
    """Explain why agreement of engine and model on ``samples`` proves nothing; else return ""."""
    outputs = [list(sample.outputs.values()) for sample in samples]
    if all(is_all_non_finite(array) for arrays in outputs for array in arrays):
        return "the model returns nothing but NaN and infinity"
    first, *rest = samples
    # Samples with equal inputs must have equal outputs.
    others = [sample for sample in rest if not equal_arrays(sample.inputs, first.inputs)]
    if others and all(equal_arrays(sample.outputs, first.outputs) for sample in others):
        return (
            f"no output changes between the {len(samples)} samples; pass an example whose values "
            "matter to the model"
        )
    return ""
