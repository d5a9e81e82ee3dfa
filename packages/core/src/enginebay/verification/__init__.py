"""Verification of an engine against recorded outputs: the trial run, the comparison, the verdict.

Comparing requires only NumPy, even if the outputs are torch tensors. The room ``reference`` records
the outputs that are expected.
"""

from __future__ import annotations

from enginebay.verification.comparison import allowed_errors, check_tolerances, compare_outputs
from enginebay.verification.engine_trial import run_trial
from enginebay.verification.engine_verdict import Terms, judge
from enginebay.verification.evidence import Evidence
from enginebay.verification.recorded_reference import RecordedReference
from enginebay.verification.sample_comparison import check_comparators, compare_sample
from enginebay.verification.set_comparison import ToleranceOptions
from enginebay.verification.tolerance import ROUNDING, tolerance_for

__all__ = [
    "ROUNDING",
    "Evidence",
    "RecordedReference",
    "Terms",
    "ToleranceOptions",
    "allowed_errors",
    "check_comparators",
    "check_tolerances",
    "compare_outputs",
    "compare_sample",
    "judge",
    "run_trial",
    "tolerance_for",
]
