"""The verdict that an artifact carries, with the figures and the matchings it rests on.

The figures are measured in :mod:`enginebay.verification`; these are only their records. A record
is plain JSON: no NaN and no infinity, so a value that may be one of them is kept as text.
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
from enginebay.verdict.verification import (
    PROBES,
    Basis,
    Verdict,
    VerdictWarning,
    Verification,
)

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
