"""The verdict on an engine: a child process runs the engine, and its outputs are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.errors import ChildCrashedError, ChildTimeoutError, EnginebayError
from enginebay.tensors import load_samples
from enginebay.verdict import Verification
from enginebay.verification.engine_trial import run_trial
from enginebay.verification.evidence import Evidence
from enginebay.verification.sample_comparison import compare_sample, summarize_matchings
from enginebay.verification.simulation import build_simulated_verdict, build_unsimulated_verdict
from enginebay.verification.verdict_rules import decide

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from enginebay.artifact import LoadRequest
    from enginebay.comparators import Comparator
    from enginebay.inference import Receipt
    from enginebay.verdict import Basis


def judge(
    request: LoadRequest,
    samples: Path,
    reference: str,
    *,
    basis: Basis,
    missing: str = "",
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
    against = "" if missing else reference

    def judge_run() -> tuple[Verification, Receipt | None]:
        try:
            found, receipt = run_trial(request, samples, timeout=timeout)
        except (ChildCrashedError, ChildTimeoutError) as err:
            return Verification.crashed(str(err), reference=against), None
        if missing:
            unverified = Verification.unverified(missing)
            return msgspec.structs.replace(unverified, fallbacks=receipt.fallbacks), receipt
        evidence = Evidence(
            load_samples(samples),
            found,
            basis,
            comparators=comparators,
            rtol=rtol,
            atol=atol,
            precision=receipt.precision,
            allowed=request.allowed_precision(),
        )
        return build_verdict(evidence, reference, receipt.fallbacks), receipt

    if request.built_for is None:
        return judge_run()
    try:
        verdict = build_simulated_verdict(*judge_run(), request.built_for, against)
    except EnginebayError as err:
        verdict = build_unsimulated_verdict(request.built_for, str(err), against)
    # A machine that the engine is built for will compare it on the same samples later.
    return msgspec.structs.replace(verdict, basis=basis), None


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
    """Describe how engine and model differ on inputs with NaN and infinity; "" if they agree."""
    for sample, found in evidence.non_finite_runs:
        if not found:
            return "the engine raises an error or crashes on inputs with NaN and infinity"
        outputs = compare_sample(sample.outputs, found, evidence.options).outputs
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
