"""The set of the built-in rewriters, and the checks of their exporters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.rewriting.declaration import RewriterSet
from enginebay.rewriting.rewriter import CORE

if TYPE_CHECKING:
    from enginebay.rewriting.rewriter import Target

rewriters = RewriterSet(distribution=CORE)


def not_dynamo(target: Target) -> bool:
    """Return True unless the exporter is dynamo; also for other IRs and unknown exporters."""
    return target.exporter != "dynamo"


def not_torchscript(target: Target) -> bool:
    """Return True unless the exporter is TorchScript; also for other IRs and unknown exporters."""
    return target.exporter != "torchscript"


def torchscript_only(target: Target) -> bool:
    """Return True if the exporter is TorchScript."""
    return target.exporter == "torchscript"


def is_tracing() -> bool:
    """Return True during ``torch.jit.trace``, which the TorchScript exporter also uses."""
    import torch

    return torch._C._get_tracing_state() is not None
