"""The operations deploy, export, rewrite, convert, load and verify, one in each file.

``load`` must not import torch and the other packages that only a deployment needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.operations.backend import Backend as Backend, get_backend as get_backend
    from enginebay.operations.convert_ir import convert as convert
    from enginebay.operations.deploy_model import deploy as deploy
    from enginebay.operations.deployment import Deployment as Deployment
    from enginebay.operations.draft_model import draft_irs as draft_irs
    from enginebay.operations.expected_outputs import input_sets as input_sets
    from enginebay.operations.export_model import export as export
    from enginebay.operations.load_artifact import load as load
    from enginebay.operations.recorded_command import (
        python_call as python_call,
        repeatable_command as repeatable_command,
        typed as typed,
    )
    from enginebay.operations.rewrite_model import (
        export_patch as export_patch,
        find_sets as find_sets,
        rewrite as rewrite,
    )
    from enginebay.operations.rewriter_sets import find_rewriters as find_rewriters
    from enginebay.operations.settings import check_timeout as check_timeout
    from enginebay.operations.step_display import show_steps as show_steps
    from enginebay.operations.steps import (
        Step as Step,
        Steps as Steps,
    )
    from enginebay.operations.verify_artifact import verify as verify, verify_here as verify_here
    from enginebay.operations.work_dir import default_work_dir as default_work_dir


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "operations.convert_ir": "convert",
        "operations.deploy_model": "deploy",
        "operations.deployment": "Deployment",
        "operations.draft_model": "draft_irs",
        "operations.expected_outputs": "input_sets",
        "operations.export_model": "export",
        "operations.load_artifact": "load",
        "operations.backend": "Backend get_backend",
        "operations.recorded_command": "python_call repeatable_command typed",
        "operations.rewrite_model": "export_patch find_sets rewrite",
        "operations.settings": "check_timeout",
        "operations.rewriter_sets": "find_rewriters",
        "operations.step_display": "show_steps",
        "operations.steps": "Step Steps",
        "operations.verify_artifact": "verify verify_here",
        "operations.work_dir": "default_work_dir",
    },
)
