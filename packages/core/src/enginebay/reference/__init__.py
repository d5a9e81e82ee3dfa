"""The reference of a verdict: probe inputs, and what the unpatched model returns on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.reference.determinism import HIDDEN_STATE as HIDDEN_STATE
    from enginebay.reference.file_reference import run_file as run_file
    from enginebay.reference.probes import ProbeSettings as ProbeSettings
    from enginebay.reference.recording import (
        note_precision as note_precision,
        record_reference as record_reference,
        sample_model as sample_model,
    )
    from enginebay.reference.reference_outputs import (
        reference_for as reference_for,
        reference_model as reference_model,
    )
    from enginebay.reference.settled_verdict import (
        SettledVerdict as SettledVerdict,
        judge_settled as judge_settled,
    )


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "reference.determinism": "HIDDEN_STATE",
        "reference.file_reference": "run_file",
        "reference.probes": "ProbeSettings",
        "reference.recording": "note_precision record_reference sample_model",
        "reference.reference_outputs": "reference_for reference_model",
        "reference.settled_verdict": "SettledVerdict judge_settled",
    },
)
