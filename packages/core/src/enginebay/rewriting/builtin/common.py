"""The set of the built-in rewriters, and what several of its modules use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from enginebay.rewriting.declaration import RewriterSet
from enginebay.rewriting.rewriter import CORE

if TYPE_CHECKING:
    import torch

    from enginebay.rewriting.rewriter import Target

rewriters = RewriterSet(distribution=CORE)


class OnnxGraph(Protocol):
    """The second argument of a symbolic: the ONNX graph that the TorchScript exporter builds."""

    def op(self, name: str, *inputs: torch.Value, **attributes: object) -> torch.Value:
        """Add a node with one output."""


def not_dynamo(target: Target) -> bool:
    """Return True unless the exporter is known to be dynamo."""
    return target.exporter != "dynamo"


def not_torchscript(target: Target) -> bool:
    """Return True unless the exporter is known to be TorchScript."""
    return target.exporter != "torchscript"


def torchscript_only(target: Target) -> bool:
    """Return True if the exporter is known to be TorchScript."""
    return target.exporter == "torchscript"


def is_tracing() -> bool:
    """Return True during ``torch.jit.trace``, which the TorchScript exporter also uses."""
    import torch

    return torch._C._get_tracing_state() is not None
