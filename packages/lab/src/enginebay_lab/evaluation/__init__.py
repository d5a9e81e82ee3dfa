"""Evaluation: what a deployment costs in accuracy, on a data set, beside PyTorch.

Each item is read once and passes through PyTorch and through every artifact, whose engine runs in
a child process of its own. Figures are those of shards of the items, merged in order, whether this
process computes them or an executor's workers do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.evaluation.candidates import Candidate, common_task, find_candidates
    from enginebay.evaluation.find import MetricSource, find_metrics
    from enginebay.evaluation.job import Job, describe_job
    from enginebay.evaluation.journal import Journal
    from enginebay.evaluation.loop import Loop
    from enginebay.evaluation.one_process import evaluate_here
    from enginebay.evaluation.reference import (
        TorchModel,
        find_torch_model,
        model_identity,
        torch_model,
    )
    from enginebay.evaluation.rows import Evaluation, Row, WorstItem
    from enginebay.evaluation.run import Run
    from enginebay.evaluation.sharded import evaluate_on
    from enginebay.evaluation.totals import Totals

__all__ = [
    "Candidate",
    "Evaluation",
    "Job",
    "Journal",
    "Loop",
    "MetricSource",
    "Row",
    "Run",
    "TorchModel",
    "Totals",
    "WorstItem",
    "common_task",
    "describe_job",
    "evaluate_here",
    "evaluate_on",
    "find_candidates",
    "find_metrics",
    "find_torch_model",
    "model_identity",
    "torch_model",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Candidate": "evaluation.candidates",
        "Evaluation": "evaluation.rows",
        "Job": "evaluation.job",
        "Journal": "evaluation.journal",
        "Loop": "evaluation.loop",
        "MetricSource": "evaluation.find",
        "Row": "evaluation.rows",
        "Run": "evaluation.run",
        "TorchModel": "evaluation.reference",
        "Totals": "evaluation.totals",
        "WorstItem": "evaluation.rows",
        "common_task": "evaluation.candidates",
        "describe_job": "evaluation.job",
        "evaluate_here": "evaluation.one_process",
        "evaluate_on": "evaluation.sharded",
        "find_candidates": "evaluation.candidates",
        "find_metrics": "evaluation.find",
        "find_torch_model": "evaluation.reference",
        "model_identity": "evaluation.reference",
        "torch_model": "evaluation.reference",
    },
)
