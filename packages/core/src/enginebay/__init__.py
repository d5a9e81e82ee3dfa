"""Enginebay turns a PyTorch model into a verified artifact on any inference engine.

Importing this module imports nothing else: every name below is fetched when it is first used.

Public are this module, :mod:`enginebay.hooks` (the contract with plugins), :mod:`enginebay.errors`,
:mod:`enginebay.environment`, :mod:`enginebay.authors` (help for those who write plugins),
:mod:`enginebay.commands` (for those who write commands) and :mod:`enginebay.testing`. Everything
else may change in any release.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from enginebay.lazy import lazy_names
from enginebay.version import __version__

if TYPE_CHECKING:
    from enginebay.artifact import Artifact, open_artifact
    from enginebay.backend import Backend, get_backend
    from enginebay.config import ExportOptions, VerifyOptions
    from enginebay.data import DataSet
    from enginebay.environment import Check, EnvReport
    from enginebay.errors import EnginebayError, MismatchError
    from enginebay.hooks import API_VERSION, BackendInfo, hookimpl
    from enginebay.inference import Receipt, Wrapper
    from enginebay.ir import IRModel
    from enginebay.operations import (
        Deployment,
        Preview,
        convert,
        deploy,
        export,
        load,
        preview,
        rewrite,
        verify,
    )
    from enginebay.params import BackendParams, ConfigKey, FileName
    from enginebay.plugins import BackendStatus, list_backends
    from enginebay.rewriting import RewriterSet, mark, marks
    from enginebay.tensors import TensorSpec
    from enginebay.verdict import VerdictWarning, Verification

__all__ = [
    "API_VERSION",
    "Artifact",
    "Backend",
    "BackendInfo",
    "BackendParams",
    "BackendStatus",
    "Check",
    "ConfigKey",
    "DataSet",
    "Deployment",
    "EnginebayError",
    "EnvReport",
    "ExportOptions",
    "FileName",
    "IRModel",
    "MismatchError",
    "Preview",
    "Receipt",
    "RewriterSet",
    "TensorSpec",
    "VerdictWarning",
    "Verification",
    "VerifyOptions",
    "Wrapper",
    "__version__",
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
    "preview",
    "rewrite",
    "verify",
]

_fetch = lazy_names(
    __name__,
    {
        "API_VERSION": "hooks",
        "Artifact": "artifact",
        "Backend": "backend",
        "BackendInfo": "hooks",
        "BackendParams": "params",
        "BackendStatus": "plugins",
        "Check": "environment",
        "ConfigKey": "params",
        "DataSet": "data",
        "Deployment": "operations",
        "EnginebayError": "errors",
        "EnvReport": "environment",
        "ExportOptions": "config",
        "FileName": "params",
        "IRModel": "ir",
        "MismatchError": "errors",
        "Preview": "operations",
        "Receipt": "inference",
        "RewriterSet": "rewriting",
        "TensorSpec": "tensors",
        "VerdictWarning": "verdict",
        "Verification": "verdict",
        "VerifyOptions": "config",
        "Wrapper": "inference",
        "convert": "operations",
        "deploy": "operations",
        "export": "operations",
        "get_backend": "backend",
        "hookimpl": "hooks",
        "list_backends": "plugins",
        "load": "operations",
        "mark": "rewriting",
        "marks": "rewriting",
        "open_artifact": "artifact",
        "preview": "operations",
        "rewrite": "operations",
        "verify": "operations",
    },
)


def __getattr__(name: str) -> Any:
    """Fetch a public name from the room that it lives in."""
    if sys.platform == "win32" and name in __all__:
        from enginebay.errors import windows_error

        raise windows_error()
    return _fetch(name)


def __dir__() -> list[str]:
    return sorted(__all__)
