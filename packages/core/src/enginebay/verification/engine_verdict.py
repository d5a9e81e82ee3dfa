"""The verdict on an engine: a child process runs the engine, and its outputs are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from enginebay.errors import ChildCrashedError, ChildTimeoutError, EnginebayError
from enginebay.tensors import is_float
from enginebay.verdict import Verification
from enginebay.verification.engine_trial import run_trial
from enginebay.verification.evidence import Evidence
from enginebay.verification.sample_comparison import compare_sample, summarize_matchings
from enginebay.verification.simulation import build_simulated_verdict, build_unsimulated_verdict
from enginebay.verification.verdict_rules import decide

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from enginebay.artifact import LoadRequest
    from enginebay.comparators import Comparator
    from enginebay.inference import Receipt
    from enginebay.tensors import NumpyArray
    from enginebay.verification.recorded_reference import RecordedReference


class Terms(NamedTuple):
    """How an engine is compared with its reference.

    Attributes:
        timeout: Seconds that loading and all runs may take together.
        rtol: Replaces the relative tolerance.
        atol: Replaces the absolute tolerance.
        comparators: Comparators for outputs that are compared as sets, such as detections.
    """

    timeout: float
    rtol: float | None = None
    atol: float | None = None
    comparators: tuple[Comparator, ...] = ()


def judge(
    request: LoadRequest,
    recorded: RecordedReference,
    terms: Terms,
    settle: Callable[[Evidence], Evidence] | None = None,
) -> tuple[Verification, Receipt | None]:
    """Run an engine and compare its outputs with the reference's.

    If this machine cannot run the engine, another engine runs the graph from which the engine is
    built; see :mod:`enginebay.verification.simulation`.

    Args:
        request: The engine to load and run.
        recorded: The inputs, with the reference's outputs.
        terms: Tolerances, comparators and the time limit.
        settle: Leaves out the samples, and allows the errors, that rounding explains.

    Returns:
        The verdict, and the engine's receipt. The verdict is ``crashed`` if the engine ended its
        process or timed out, ``unverified`` if the reference's outputs are missing. The receipt is
        None if the engine crashed or cannot run on this machine.
    """
    if (built_for := request.built_for) is None:
        return _judge_run(request, recorded, terms, settle)
    against = _known_reference(recorded)
    try:
        found = _judge_run(request, recorded, terms, settle)
        verdict = build_simulated_verdict(*found, built_for, against)
    except EnginebayError as err:
        verdict = build_unsimulated_verdict(built_for, str(err), against)
    # A machine that the engine is built for will compare it on the same samples later.
    return msgspec.structs.replace(verdict, basis=verdict.basis or recorded.basis), None


def _judge_run(
    request: LoadRequest,
    recorded: RecordedReference,
    terms: Terms,
    settle: Callable[[Evidence], Evidence] | None,
) -> tuple[Verification, Receipt | None]:
    """Run what ``request`` loads; return the verdict on its outputs, and its receipt."""
    samples = recorded.engine_samples
    try:
        found, receipt = run_trial(request, samples, timeout=terms.timeout)
    except (ChildCrashedError, ChildTimeoutError) as err:
        return Verification.crashed(str(err), reference=_known_reference(recorded)), None
    if recorded.missing:
        unverified = Verification.unverified(recorded.missing)
        return msgspec.structs.replace(unverified, fallbacks=receipt.fallbacks), receipt
    evidence = Evidence(
        samples,
        found,
        recorded.basis,
        comparators=terms.comparators,
        rtol=terms.rtol,
        atol=terms.atol,
        precision=receipt.precision,
        allowed=request.allowed_precision(),
    )
    if settle is not None:
        evidence = settle(evidence)
    verdict = build_verdict(evidence, recorded.description, receipt.fallbacks)
    # The worst sample's shape is of one size; the table names the dynamic dimensions.
    dims = {spec.name: spec.dims for spec in request.outputs if spec.dims and not spec.is_static}
    outputs = tuple(
        msgspec.structs.replace(output, dims=dims.get(output.name)) for output in verdict.outputs
    )
    return msgspec.structs.replace(verdict, outputs=outputs), receipt


def _known_reference(recorded: RecordedReference) -> str:
    return "" if recorded.missing else recorded.description


def build_verdict(
    evidence: Evidence, reference: str, fallbacks: tuple[str, ...] = ()
) -> Verification:
    """Return the verdict on the evidence, with its figures and its limitations.

    Args:
        evidence: The engine's outputs and the reference's.
        reference: Name of the reference.
        fallbacks: A sentence for each requested setting that the engine did not use.
    """
    verdict, reason = decide(evidence)
    return Verification(
        verdict=verdict,
        reason=reason,
        reference=reference,
        outputs=evidence.worst_outputs,
        samples=len(evidence.runs),
        precision=evidence.precision,
        failed=evidence.failed,
        basis=evidence.basis,
        signals=evidence.signals,
        matchings=summarize_matchings(evidence.comparators, evidence.labels, evidence.comparisons),
        fallbacks=fallbacks,
        non_finite=describe_non_finite(evidence),
    )


def describe_non_finite(evidence: Evidence) -> str:
    """Describe how engine and model differ on extreme inputs; "" if they agree."""
    for label, name in evidence.undefined:
        return (
            f"the model returns NaN on the probe '{label}', where the engine returns numbers: "
            f'"{name}"'
        )
    for sample, found in evidence.non_finite_runs:
        extremes = _name_extremes(sample.inputs.values())
        if not found:
            return f"the engine raises an error or crashes on inputs with {extremes}"
        outputs = compare_sample(sample.outputs, found, evidence.options).outputs
        worst = max(outputs, key=lambda output: output.badness)
        if not worst.passed:
            detail = worst.reason
            if worst.worst_index is not None:
                detail = f"expected {worst.worst_expected}, found {worst.worst_found}"
            return (
                f"on inputs with {extremes} the engine differs from the model: "
                f'"{worst.name}": {detail}'
            )
    return ""


def _name_extremes(arrays: Collection[NumpyArray]) -> str:
    is_large = any(array.dtype == np.int64 and array.max(initial=0) >= 2**31 for array in arrays)
    is_finite = all(np.isfinite(array).all() for array in arrays if is_float(array))
    floats, integers = "NaN or infinity", "integers beyond 2³¹"
    return (
        f"{floats}, or {integers}"
        if is_large and not is_finite
        else integers
        if is_large
        else floats
    )
