"""The verbs: deploy, export, convert, load, verify, benchmark. One file each."""

from __future__ import annotations

from enginebay.operations.benchmark_artifact import Benchmark, benchmark
from enginebay.operations.check_config import check
from enginebay.operations.convert_ir import convert
from enginebay.operations.deploy_model import Deployment, deploy
from enginebay.operations.export_model import export, rewrite
from enginebay.operations.load_artifact import load
from enginebay.operations.steps import Step
from enginebay.operations.verify_artifact import verify

__all__ = [
    "Benchmark",
    "Deployment",
    "Step",
    "benchmark",
    "check",
    "convert",
    "deploy",
    "export",
    "load",
    "rewrite",
    "verify",
]
