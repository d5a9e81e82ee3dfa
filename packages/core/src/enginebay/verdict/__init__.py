"""Records of an artifact's verdict, the verdict's figures and the results of comparators.

:mod:`enginebay.verification` measures the figures. A record is plain JSON, which has no NaN and no
infinity: a value that may be one of them is stored as text.
"""

from __future__ import annotations

from enginebay.verdict.figures import EXAMPLE, ITEM, OutputComparison, Signal, Simulation
from enginebay.verdict.matching import (
    Aligned,
    Allowed,
    ComparisonRequest,
    ComparisonResult,
    Matching,
)
from enginebay.verdict.verification import PROBES, Basis, Verdict, VerdictWarning, Verification

__all__ = [
    "EXAMPLE",
    "ITEM",
    "PROBES",
    "Aligned",
    "Allowed",
    "Basis",
    "ComparisonRequest",
    "ComparisonResult",
    "Matching",
    "OutputComparison",
    "Signal",
    "Simulation",
    "Verdict",
    "VerdictWarning",
    "Verification",
]
