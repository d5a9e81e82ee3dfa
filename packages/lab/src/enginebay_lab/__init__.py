"""The lab of Enginebay: measure, compare, diagnose, evaluate, sweep and report artifacts.

::

    import enginebay_lab as lab

    lab.compare(model, inputs, work_dir="engines")

Importing this module imports nothing else: every name below is fetched when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.authors import lazy_names

if TYPE_CHECKING:
    from enginebay_lab.comparison.compare_backends import compare
    from enginebay_lab.comparison.comparison import Comparison, ComparisonRow
    from enginebay_lab.diagnosis.bisect_artifact import bisect
    from enginebay_lab.diagnosis.bisection import Bisection
    from enginebay_lab.diagnosis.quantization import Quantization, quantize
    from enginebay_lab.diagnosis.rank_layers import Sensitivity, sensitivity
    from enginebay_lab.evaluation.evaluate_artifacts import evaluate
    from enginebay_lab.evaluation.evaluation_rows import Evaluation
    from enginebay_lab.measurement.benchmark_artifact import benchmark
    from enginebay_lab.measurement.benchmark_rows import Benchmark, BenchmarkRow
    from enginebay_lab.reports.gathering import report
    from enginebay_lab.reports.result import Report
    from enginebay_lab.sweeps.cells import Cell
    from enginebay_lab.sweeps.run_sweep import sweep
    from enginebay_lab.sweeps.sweep_rows import Sweep, SweepRow

__version__ = "0.1.0"

_HOMES = {
    "Benchmark": "measurement.benchmark_rows",
    "BenchmarkRow": "measurement.benchmark_rows",
    "Bisection": "diagnosis.bisection",
    "Cell": "sweeps.cells",
    "Comparison": "comparison.comparison",
    "ComparisonRow": "comparison.comparison",
    "Evaluation": "evaluation.evaluation_rows",
    "Quantization": "diagnosis.quantization",
    "Report": "reports.result",
    "Sensitivity": "diagnosis.rank_layers",
    "Sweep": "sweeps.sweep_rows",
    "SweepRow": "sweeps.sweep_rows",
    "benchmark": "measurement.benchmark_artifact",
    "bisect": "diagnosis.bisect_artifact",
    "compare": "comparison.compare_backends",
    "evaluate": "evaluation.evaluate_artifacts",
    "quantize": "diagnosis.quantization",
    "report": "reports.gathering",
    "sensitivity": "diagnosis.rank_layers",
    "sweep": "sweeps.run_sweep",
}

__all__ = [
    "Benchmark",
    "BenchmarkRow",
    "Bisection",
    "Cell",
    "Comparison",
    "ComparisonRow",
    "Evaluation",
    "Quantization",
    "Report",
    "Sensitivity",
    "Sweep",
    "SweepRow",
    "benchmark",
    "bisect",
    "compare",
    "evaluate",
    "quantize",
    "report",
    "sensitivity",
    "sweep",
]

__getattr__ = lazy_names(__name__, _HOMES)
