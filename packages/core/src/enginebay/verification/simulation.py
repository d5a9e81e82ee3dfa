"""The verdict on an engine that cannot run on this machine: another engine runs its graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.verdict import Simulation, Verification

if TYPE_CHECKING:
    from enginebay.hooks import BuiltFor
    from enginebay.inference import Receipt


def build_unsimulated_verdict(built_for: BuiltFor, error: str, reference: str) -> Verification:
    """Return the verdict ``unverified`` on an engine whose graph no other engine could run."""
    reason = _explain_not_run(built_for, f"the engine's graph did not run: {error}", reference)
    return Verification(verdict="unverified", reason=reason, reference=reference)


def build_simulated_verdict(
    graph_verdict: Verification, receipt: Receipt | None, built_for: BuiltFor, reference: str
) -> Verification:
    """Return the verdict on an engine that did not run, after another engine ran its graph.

    Args:
        graph_verdict: The verdict on the outputs that the other engine computed.
        receipt: The receipt of the engine that ran the graph; None if that engine crashed.
        built_for: The machines that the engine is built for, and what this machine lacks.
        reference: Name of the reference; empty if there are no expected outputs.

    Returns:
        ``mismatched`` if the graph is wrong, since no engine corrects a wrong graph; else
        ``unverified``, since the engine itself has not run.
    """
    if receipt is None:
        return build_unsimulated_verdict(built_for, graph_verdict.reason, reference)
    simulation = Simulation(
        engine=receipt.engine,
        precision=graph_verdict.precision,
        samples=graph_verdict.samples,
        outputs=graph_verdict.outputs,
        failed=graph_verdict.failed,
        signals=graph_verdict.signals,
        matchings=graph_verdict.matchings,
    )
    is_wrong = graph_verdict.verdict == "mismatched"
    if is_wrong:
        reason = (
            f"the graph that the engine is built from is wrong when {receipt.engine} runs it: "
            f"{graph_verdict.reason or _describe_worst(graph_verdict)}"
        )
    else:
        reason = _explain_not_run(built_for, graph_verdict.reason, reference)
    return msgspec.structs.replace(
        graph_verdict,
        verdict="mismatched" if is_wrong else "unverified",
        reason=reason,
        reference=reference,
        simulation=simulation if graph_verdict.outputs else None,
        # These error metrics are the other engine's, so only the simulation has them.
        outputs=(),
        samples=0,
        precision="",
        failed=(),
        signals=(),
        matchings=(),
        fallbacks=(),
        non_finite="",
    )


def _describe_worst(verdict: Verification) -> str:
    if verdict.failed:
        return max(verdict.outputs, key=lambda output: output.badness).describe()
    # If all outputs pass, a signal-to-noise ratio does not.
    return next(signal.describe() for signal in verdict.signals if not signal.passed)


def _explain_not_run(built_for: BuiltFor, doubt: str, reference: str) -> str:
    """Explain why the engine did not run, and add the command that runs it on another machine.

    ``doubt`` is the reason why no other engine ran the graph from which the engine is built, or
    why such a run proved nothing; empty if the outputs of such a run agree with the reference.
    """
    command = f"on such a machine: enginebay {'verify' if reference else 'run'} ARTIFACT"
    return "; ".join(filter(None, (built_for.describe(), doubt, command)))
