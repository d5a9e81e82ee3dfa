"""Enginebay turns a PyTorch model into a verified artifact on any inference engine.

Importing this module imports nothing else: every name below is fetched when it is first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from enginebay.artifact import Artifact, Verification, open_artifact
    from enginebay.backend import Backend, get_backend
    from enginebay.benchmarking import benchmark
    from enginebay.conversion import convert
    from enginebay.deployment import Deployment, deploy
    from enginebay.environment import Check, EnvReport
    from enginebay.errors import EnginebayError, MismatchError
    from enginebay.exporting import export, rewrite
    from enginebay.hooks import API_VERSION, BackendInfo, hookimpl
    from enginebay.inference.receipt import Receipt
    from enginebay.inference.wrapper import Wrapper
    from enginebay.ir.model import IRModel
    from enginebay.loading import load
    from enginebay.params import BackendParams, ConfigKey, FileName
    from enginebay.plugins import BackendStatus, list_backends
    from enginebay.rewriting import RewriterSet
    from enginebay.rewriting.marks import mark, marks
    from enginebay.tensors import TensorSpec
    from enginebay.verifying import verify

__version__ = "0.1.0"

_HOMES = {
    "API_VERSION": "hooks",
    "Artifact": "artifact",
    "Backend": "backend",
    "BackendInfo": "hooks",
    "BackendParams": "params",
    "BackendStatus": "plugins",
    "Check": "environment",
    "ConfigKey": "params",
    "Deployment": "deployment",
    "EnginebayError": "errors",
    "EnvReport": "environment",
    "FileName": "params",
    "IRModel": "ir.model",
    "MismatchError": "errors",
    "Receipt": "inference.receipt",
    "RewriterSet": "rewriting",
    "TensorSpec": "tensors",
    "Verification": "artifact",
    "Wrapper": "inference.wrapper",
    "benchmark": "benchmarking",
    "convert": "conversion",
    "deploy": "deployment",
    "export": "exporting",
    "get_backend": "backend",
    "hookimpl": "hooks",
    "list_backends": "plugins",
    "load": "loading",
    "mark": "rewriting.marks",
    "marks": "rewriting.marks",
    "open_artifact": "artifact",
    "rewrite": "exporting",
    "verify": "verifying",
}

__all__ = [
    "API_VERSION",
    "Artifact",
    "Backend",
    "BackendInfo",
    "BackendParams",
    "BackendStatus",
    "Check",
    "ConfigKey",
    "Deployment",
    "EnginebayError",
    "EnvReport",
    "FileName",
    "IRModel",
    "MismatchError",
    "Receipt",
    "RewriterSet",
    "TensorSpec",
    "Verification",
    "Wrapper",
    "__version__",
    "benchmark",
    "convert",
    "deploy",
    "export",
    "get_backend",
    "hookimpl",
    "list_backends",
    "load",
    "mark",
    "marks",
    "open_artifact",
    "rewrite",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Fetch a public name from the room that it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module 'enginebay' has no attribute '{name}'")
    if sys.platform == "win32":
        from enginebay.errors import windows_error

        raise windows_error()
    value = getattr(import_module(f"enginebay.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
