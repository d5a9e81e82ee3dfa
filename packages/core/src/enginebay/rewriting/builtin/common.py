"""The set that every file of this folder adds to, and the exporters that rewriters are for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.rewriting.declaration import RewriterSet
from enginebay.rewriting.rewriter import CORE

if TYPE_CHECKING:
    from enginebay.rewriting.rewriter import Target

rewriters = RewriterSet(distribution=CORE)


def not_dynamo(target: Target) -> bool:
    """Return True if the exporter is TorchScript or unknown, or the IR is another one."""
    return target.exporter != "dynamo"


def not_torchscript(target: Target) -> bool:
    """Return True if the exporter is dynamo or unknown, or the IR is another one."""
    return target.exporter != "torchscript"


def torchscript_only(target: Target) -> bool:
    """Return True if the exporter is TorchScript: where any other one is right by itself."""
    return target.exporter == "torchscript"


def is_tracing() -> bool:
    """Return True while ``torch.jit.trace`` runs, and so while the TorchScript exporter does."""
    import torch

    return torch._C._get_tracing_state() is not None
