"""Evaluation: what a deployment costs in accuracy, on a data set, beside PyTorch.

Each item is read once and passes through PyTorch and through every artifact, whose engine runs in
a child process of its own; metrics are computed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.evaluation.candidates import Candidate, common_task, find_candidates
    from enginebay.evaluation.find import MetricSource, find_metrics
    from enginebay.evaluation.journal import Journal
    from enginebay.evaluation.loop import Loop
    from enginebay.evaluation.one_process import evaluate_here
    from enginebay.evaluation.reference import TorchModel, torch_model
    from enginebay.evaluation.rows import Evaluation, Row, WorstItem
    from enginebay.evaluation.run import Run

__all__ = [
    "Candidate",
    "Evaluation",
    "Journal",
    "Loop",
    "MetricSource",
    "Row",
    "Run",
    "TorchModel",
    "WorstItem",
    "common_task",
    "evaluate_here",
    "find_candidates",
    "find_metrics",
    "torch_model",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Candidate": "evaluation.candidates",
        "Evaluation": "evaluation.rows",
        "Journal": "evaluation.journal",
        "Loop": "evaluation.loop",
        "MetricSource": "evaluation.find",
        "Row": "evaluation.rows",
        "Run": "evaluation.run",
        "TorchModel": "evaluation.reference",
        "WorstItem": "evaluation.rows",
        "common_task": "evaluation.candidates",
        "evaluate_here": "evaluation.one_process",
        "find_candidates": "evaluation.candidates",
        "find_metrics": "evaluation.find",
        "torch_model": "evaluation.reference",
    },
)
