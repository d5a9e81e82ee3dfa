"""The verbs: deploy, export, rewrite, convert, load, verify, evaluate … One file each.

Loading an artifact must not import what deploying one needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.operations.benchmark_artifact import benchmark
    from enginebay.operations.bisect_artifact import bisect
    from enginebay.operations.check_config import check
    from enginebay.operations.compare_backends import compare
    from enginebay.operations.comparison import ROWS_FILE, Comparison, ComparisonRow
    from enginebay.operations.convert_ir import convert
    from enginebay.operations.deploy_model import deploy
    from enginebay.operations.deployment import Deployment
    from enginebay.operations.evaluate_artifacts import evaluate
    from enginebay.operations.export_model import export
    from enginebay.operations.int8_layers import NodeSensitivity
    from enginebay.operations.load_artifact import load
    from enginebay.operations.preview_model import BackendPreview, Preview, preview
    from enginebay.operations.rank_layers import Sensitivity, sensitivity
    from enginebay.operations.rewrite_model import rewrite
    from enginebay.operations.shown_steps import show_steps
    from enginebay.operations.steps import Step, Steps
    from enginebay.operations.verify_artifact import verify, verify_here

__all__ = [
    "ROWS_FILE",
    "BackendPreview",
    "Comparison",
    "ComparisonRow",
    "Deployment",
    "NodeSensitivity",
    "Preview",
    "Sensitivity",
    "Step",
    "Steps",
    "benchmark",
    "bisect",
    "check",
    "compare",
    "convert",
    "deploy",
    "evaluate",
    "export",
    "load",
    "preview",
    "rewrite",
    "sensitivity",
    "show_steps",
    "verify",
    "verify_here",
]

__getattr__ = lazy_names(
    __name__,
    {
        "BackendPreview": "operations.preview_model",
        "Comparison": "operations.comparison",
        "ComparisonRow": "operations.comparison",
        "Deployment": "operations.deployment",
        "NodeSensitivity": "operations.int8_layers",
        "Preview": "operations.preview_model",
        "Sensitivity": "operations.rank_layers",
        "ROWS_FILE": "operations.comparison",
        "Step": "operations.steps",
        "Steps": "operations.steps",
        "benchmark": "operations.benchmark_artifact",
        "bisect": "operations.bisect_artifact",
        "check": "operations.check_config",
        "compare": "operations.compare_backends",
        "convert": "operations.convert_ir",
        "deploy": "operations.deploy_model",
        "evaluate": "operations.evaluate_artifacts",
        "export": "operations.export_model",
        "load": "operations.load_artifact",
        "preview": "operations.preview_model",
        "rewrite": "operations.rewrite_model",
        "sensitivity": "operations.rank_layers",
        "show_steps": "operations.shown_steps",
        "verify": "operations.verify_artifact",
        "verify_here": "operations.verify_artifact",
    },
)
