"""The lab of Enginebay: preview, measure, compare, diagnose, evaluate, sweep and report.

::

    import enginebay_lab as lab

    lab.compare(model, inputs, work_dir="engines")

Importing this module imports nothing else: each name below is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.authors import lazy_names

if TYPE_CHECKING:
    from enginebay_lab.comparison.compare_backends import compare as compare
    from enginebay_lab.comparison.comparison import (
        Comparison as Comparison,
        ComparisonRow as ComparisonRow,
    )
    from enginebay_lab.diagnosis.audit import Audit as Audit, AuditRow as AuditRow
    from enginebay_lab.diagnosis.audit_files import audit as audit
    from enginebay_lab.diagnosis.bisect_artifact import bisect as bisect
    from enginebay_lab.diagnosis.bisection import Bisection as Bisection
    from enginebay_lab.diagnosis.check_pieces import pieces as pieces
    from enginebay_lab.diagnosis.piece_rows import PieceRow as PieceRow, Pieces as Pieces
    from enginebay_lab.diagnosis.quantization import (
        Quantization as Quantization,
        quantize as quantize,
    )
    from enginebay_lab.diagnosis.rank_layers import (
        Sensitivity as Sensitivity,
        sensitivity as sensitivity,
    )
    from enginebay_lab.evaluation.evaluate_artifacts import evaluate as evaluate
    from enginebay_lab.evaluation.evaluation_rows import Evaluation as Evaluation
    from enginebay_lab.measurement.benchmark import Benchmark as Benchmark
    from enginebay_lab.measurement.benchmark_artifact import benchmark as benchmark
    from enginebay_lab.measurement.benchmark_rows import BenchmarkRow as BenchmarkRow
    from enginebay_lab.obstacles.preview_model import (
        BackendPreview as BackendPreview,
        Preview as Preview,
        preview as preview,
    )
    from enginebay_lab.reports.record_collector import report as report
    from enginebay_lab.reports.report import Report as Report
    from enginebay_lab.sweeps.cells import Cell as Cell
    from enginebay_lab.sweeps.run_sweep import sweep as sweep
    from enginebay_lab.sweeps.sweep_rows import (
        Sweep as Sweep,
        SweepRow as SweepRow,
    )
    from enginebay_lab.tuning.tune_artifact import tune as tune
    from enginebay_lab.tuning.tuning import Tuning as Tuning, TuningRow as TuningRow

__version__ = "0.1.0"


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "comparison.compare_backends": "compare",
        "comparison.comparison": "Comparison ComparisonRow",
        "diagnosis.audit": "Audit AuditRow",
        "diagnosis.audit_files": "audit",
        "diagnosis.bisect_artifact": "bisect",
        "diagnosis.bisection": "Bisection",
        "diagnosis.check_pieces": "pieces",
        "diagnosis.piece_rows": "PieceRow Pieces",
        "diagnosis.quantization": "Quantization quantize",
        "diagnosis.rank_layers": "Sensitivity sensitivity",
        "evaluation.evaluate_artifacts": "evaluate",
        "evaluation.evaluation_rows": "Evaluation",
        "measurement.benchmark": "Benchmark",
        "measurement.benchmark_artifact": "benchmark",
        "measurement.benchmark_rows": "BenchmarkRow",
        "obstacles.preview_model": "BackendPreview Preview preview",
        "reports.record_collector": "report",
        "reports.report": "Report",
        "sweeps.cells": "Cell",
        "sweeps.run_sweep": "sweep",
        "sweeps.sweep_rows": "Sweep SweepRow",
        "tuning.tune_artifact": "tune",
        "tuning.tuning": "Tuning TuningRow",
    },
)
