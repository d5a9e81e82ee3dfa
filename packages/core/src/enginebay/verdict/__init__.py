"""Records of an artifact's verdict, of error metrics and of the results of comparators.

:mod:`enginebay.verification` computes the metrics. Records are stored as JSON, which has no NaN and
no infinity: values that may be NaN or infinite are stored as text.
"""

from __future__ import annotations

from enginebay.verdict.figures import EXAMPLE, ITEM, OutputComparison, Rounding, Signal, Simulation
from enginebay.verdict.matching import (
    Aligned,
    Allowed,
    ComparisonRequest,
    ComparisonResult,
    Matching,
)
from enginebay.verdict.observed_code import Decision, HalfPrecision, ReadLine
from enginebay.verdict.verification import PROBES, Basis, Verdict, VerdictWarning, Verification
from enginebay.verdict.verified_range import ComparedSizes, InputRange, VerifiedRange, has_axis

__all__ = [
    "EXAMPLE",
    "ITEM",
    "PROBES",
    "Aligned",
    "Allowed",
    "Basis",
    "ComparedSizes",
    "ComparisonRequest",
    "ComparisonResult",
    "Decision",
    "HalfPrecision",
    "InputRange",
    "Matching",
    "OutputComparison",
    "ReadLine",
    "Rounding",
    "Signal",
    "Simulation",
    "Verdict",
    "VerdictWarning",
    "Verification",
    "VerifiedRange",
    "has_axis",
]
