"""The verdict on an engine: it runs in a child process, and its outputs are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import ChildCrashedError, ChildTimeoutError
from enginebay.tensors import load_samples
from enginebay.verdict import Verification
from enginebay.verification.comparison import compare
from enginebay.verification.trial import FUNCTION, run_trial

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay.artifact import LoadRequest
    from enginebay.inference import Receipt


def judge(
    request: LoadRequest,
    samples: Path,
    reference: str,
    *,
    missing: str = "",
    rtol: float | None = None,
    atol: float | None = None,
    timeout: float,
) -> tuple[Verification, Receipt | None]:
    """Run an engine and compare its outputs with the reference's.

    Args:
        request: The engine.
        samples: A file of recorded samples: inputs with the reference's outputs.
        reference: What gave these outputs, for the verdict: ``the PyTorch model, unpatched``.
        missing: Why there is nothing to compare with, if so: the engine must load and run all the
            same.
        rtol: Replaces the relative tolerance.
        atol: Replaces the absolute tolerance.
        timeout: Seconds that loading and all runs may take together.

    Returns:
        The verdict, ``crashed`` where the engine took its process down or did not end in time,
        ``unverified`` where something is missing; and the engine's receipt, None where it crashed.
    """
    try:
        found, receipt = run_trial(request, samples, timeout=timeout)
    except (ChildCrashedError, ChildTimeoutError) as err:
        return _crashed(request, err, "" if missing else reference), None
    if missing:
        return Verification.unverified(missing), receipt
    comparisons = [
        compare(sample.outputs, outputs, precision=receipt.precision, rtol=rtol, atol=atol)
        for sample, outputs in zip(load_samples(samples), found, strict=True)
    ]
    verification = Verification.of(comparisons, reference=reference, precision=receipt.precision)
    return verification, receipt


def _crashed(request: LoadRequest, err: Exception, reference: str) -> Verification:
    # The child process is called by its function, which means nothing to a user.
    reason = str(err).replace(f"'{FUNCTION}'", f"the engine of backend '{request.backend}'")
    return Verification.crashed(reason, reference=reference)
