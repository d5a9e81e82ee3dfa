"""The verbs: deploy, export, rewrite, convert, load, verify, preview. One file each.

Loading an artifact must not import what deploying one needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.operations.check_config import check
    from enginebay.operations.convert_ir import convert
    from enginebay.operations.deploy_model import deploy
    from enginebay.operations.deployment import Deployment
    from enginebay.operations.export_model import export
    from enginebay.operations.load_artifact import load
    from enginebay.operations.preview_model import BackendPreview, Preview, preview
    from enginebay.operations.recorded_command import python_call, typed
    from enginebay.operations.rewrite_model import rewrite
    from enginebay.operations.shown_steps import show_steps
    from enginebay.operations.steps import Step, Steps
    from enginebay.operations.verify_artifact import input_sets, verify, verify_here
    from enginebay.operations.work_dir import default_work_dir

__all__ = [
    "BackendPreview",
    "Deployment",
    "Preview",
    "Step",
    "Steps",
    "check",
    "convert",
    "default_work_dir",
    "deploy",
    "export",
    "input_sets",
    "load",
    "preview",
    "python_call",
    "rewrite",
    "show_steps",
    "typed",
    "verify",
    "verify_here",
]

__getattr__ = lazy_names(
    __name__,
    {
        "BackendPreview": "operations.preview_model",
        "Deployment": "operations.deployment",
        "typed": "operations.recorded_command",
        "python_call": "operations.recorded_command",
        "input_sets": "operations.verify_artifact",
        "default_work_dir": "operations.work_dir",
        "Preview": "operations.preview_model",
        "Step": "operations.steps",
        "Steps": "operations.steps",
        "check": "operations.check_config",
        "convert": "operations.convert_ir",
        "deploy": "operations.deploy_model",
        "export": "operations.export_model",
        "load": "operations.load_artifact",
        "preview": "operations.preview_model",
        "rewrite": "operations.rewrite_model",
        "show_steps": "operations.shown_steps",
        "verify": "operations.verify_artifact",
        "verify_here": "operations.verify_artifact",
    },
)
