"""Evaluation: what a deployment costs in accuracy, on a data set, beside PyTorch.

Each item is read once and passes through PyTorch and through every artifact, whose engine runs in
a child process of its own; metrics are computed here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.evaluation.find import MetricSource, find_metrics
    from enginebay.evaluation.journal import Journal
    from enginebay.evaluation.loop import Loop
    from enginebay.evaluation.rows import Evaluation, Row, WorstItem
    from enginebay.evaluation.run import (
        Candidate,
        Run,
        common_task,
        find_candidates,
        torch_runner,
    )

__all__ = [
    "Candidate",
    "Evaluation",
    "Journal",
    "Loop",
    "MetricSource",
    "Row",
    "Run",
    "WorstItem",
    "common_task",
    "find_candidates",
    "find_metrics",
    "torch_runner",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Candidate": "evaluation.run",
        "Evaluation": "evaluation.rows",
        "Journal": "evaluation.journal",
        "Loop": "evaluation.loop",
        "MetricSource": "evaluation.find",
        "Row": "evaluation.rows",
        "Run": "evaluation.run",
        "WorstItem": "evaluation.rows",
        "torch_runner": "evaluation.run",
        "common_task": "evaluation.run",
        "find_candidates": "evaluation.run",
        "find_metrics": "evaluation.find",
    },
)
