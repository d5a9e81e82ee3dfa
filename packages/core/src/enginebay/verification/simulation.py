"""The verdict on an engine that cannot run here: on its graph, which another engine runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.verdict import Simulation, Verification

if TYPE_CHECKING:
    from enginebay.hooks import BuiltFor
    from enginebay.inference import Receipt


def not_simulated(built_for: BuiltFor, why: str, reference: str) -> Verification:
    """The verdict without any figures, and why there are none."""
    reason = _unrun(built_for, f"its graph was not run either: {why}", reference)
    return Verification(verdict="unverified", reason=reason, reference=reference)


def simulated(
    found: Verification, receipt: Receipt | None, built_for: BuiltFor, reference: str
) -> Verification:
    """The verdict on an engine, from the verdict on its graph.

    Args:
        found: The verdict on the graph.
        receipt: The other engine's; None where it crashed.
        built_for: The machines that the engine is built for, and what this one lacks.
        reference: What gave the recorded outputs; empty where there are none.

    Returns:
        ``mismatched`` where the graph is wrong, as no engine makes it right again; else
        ``unverified``, as nothing shows that the engine computes what its graph says.
    """
    if receipt is None:
        return not_simulated(built_for, found.reason, reference)
    simulation = Simulation(
        engine=receipt.engine,
        precision=found.precision,
        samples=found.samples,
        outputs=found.outputs,
        failed=found.failed,
        signals=found.signals,
        matchings=found.matchings,
    )
    if found.verdict == "mismatched":
        reason = (
            f"the graph that the engine is built from is wrong, as {receipt.engine} runs it: "
            f"{found.reason or _difference(found)}"
        )
    else:
        reason = _unrun(built_for, found.reason, reference)
    return msgspec.structs.replace(
        found,
        verdict="mismatched" if found.verdict == "mismatched" else "unverified",
        reason=reason,
        reference=reference,
        simulation=simulation if found.outputs else None,
        outputs=(),
        samples=0,
        precision="",
        failed=(),
        signals=(),
        matchings=(),
        fallbacks=(),
        non_finite="",
    )


def _difference(found: Verification) -> str:
    """The worst of what differs: an output, or else a signal of 8 bits."""
    if found.failed:
        return max(found.outputs, key=lambda output: output.badness).describe()
    return next(signal.describe() for signal in found.signals if not signal.passed)


def _unrun(built_for: BuiltFor, doubt: str, reference: str) -> str:
    """Say why the engine did not run, what else is in doubt, and what to type to run it."""
    command = f"on one of them: enginebay {'verify' if reference else 'run'} ARTIFACT"
    return "; ".join(filter(None, (built_for.describe(), doubt, command)))
