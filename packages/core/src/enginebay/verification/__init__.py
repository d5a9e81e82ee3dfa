"""Does the artifact give the model's numbers? Tolerances, metrics, verdict.

Needs NumPy only. Torch tensors are accepted where the caller has them.
"""

from __future__ import annotations

from enginebay.verification.comparison import compare
from enginebay.verification.reference import OnnxReference, reference_for, reference_text
from enginebay.verification.tolerance import Tolerance, tolerance_for
from enginebay.verification.trial import FUNCTION, Trial, run_trial

__all__ = [
    "FUNCTION",
    "OnnxReference",
    "Tolerance",
    "Trial",
    "compare",
    "reference_for",
    "reference_text",
    "run_trial",
    "tolerance_for",
]
