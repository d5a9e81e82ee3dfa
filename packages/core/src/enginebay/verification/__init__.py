"""Verification: does an engine give the model's numbers? The reference, the trial, the verdict.

Comparing needs NumPy only. Torch tensors are accepted where the caller has them.
"""

from __future__ import annotations

from enginebay.verification.comparison import compare_outputs
from enginebay.verification.engine_trial import check_loads, run_trial
from enginebay.verification.groups import check_comparators
from enginebay.verification.judgement import judge
from enginebay.verification.probes import ProbeSettings
from enginebay.verification.recorder import RecordedReference
from enginebay.verification.recording import (
    record_reference,
    sample_model,
)
from enginebay.verification.reference import (
    engine_outputs,
    evaluator_outputs,
    reference_for,
    reference_model,
)
from enginebay.verification.rounding import without_rounding

__all__ = [
    "ProbeSettings",
    "RecordedReference",
    "check_comparators",
    "check_loads",
    "compare_outputs",
    "engine_outputs",
    "evaluator_outputs",
    "judge",
    "record_reference",
    "reference_for",
    "reference_model",
    "run_trial",
    "sample_model",
    "without_rounding",
]
