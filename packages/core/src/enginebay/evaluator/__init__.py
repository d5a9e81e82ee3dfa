"""onnx's reference evaluator of ONNX files, with our operators, in a child process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.evaluator.child_runs import (
        EVALUATOR_TIMEOUT as EVALUATOR_TIMEOUT,
        OUT_OF_TIME as OUT_OF_TIME,
        evaluate_some as evaluate_some,
        evaluator_outputs as evaluator_outputs,
        rerun_file as rerun_file,
    )
    from enginebay.evaluator.perturbation import Perturbation as Perturbation


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "evaluator.child_runs": (
            "EVALUATOR_TIMEOUT OUT_OF_TIME evaluate_some evaluator_outputs rerun_file"
        ),
        "evaluator.perturbation": "Perturbation",
    },
)
