"""Does the artifact give the model's numbers? Tolerances, metrics, verdict.

Needs NumPy only. Torch tensors are accepted where the caller has them.
"""

from enginebay.artifact.verdict import OutputComparison, Verdict, Verification
from enginebay.verification.compare import compare
from enginebay.verification.tolerance import Tolerance, tolerance_for

__all__ = [
    "OutputComparison",
    "Tolerance",
    "Verdict",
    "Verification",
    "compare",
    "tolerance_for",
]
