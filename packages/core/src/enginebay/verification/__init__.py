"""Verification of an engine against its model: the reference, the trial run, the verdict.

Comparing outputs requires only NumPy, even if the outputs are torch tensors.
"""

from __future__ import annotations

from enginebay.verification.comparison import compare_outputs
from enginebay.verification.engine_trial import check_loads, run_trial
from enginebay.verification.engine_verdict import judge
from enginebay.verification.probes import ProbeSettings
from enginebay.verification.recorded_samples import RecordedReference
from enginebay.verification.reference import (
    engine_outputs,
    evaluator_outputs,
    reference_for,
    reference_model,
)
from enginebay.verification.reference_recording import record_reference, sample_model
from enginebay.verification.rounding_sensitivity import drop_undecided_probes
from enginebay.verification.sample_comparison import check_comparators

__all__ = [
    "ProbeSettings",
    "RecordedReference",
    "check_comparators",
    "check_loads",
    "compare_outputs",
    "drop_undecided_probes",
    "engine_outputs",
    "evaluator_outputs",
    "judge",
    "record_reference",
    "reference_for",
    "reference_model",
    "run_trial",
    "sample_model",
]
