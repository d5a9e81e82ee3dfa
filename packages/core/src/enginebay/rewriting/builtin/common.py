"""The set of the built-in rewriters, and helpers that several modules of this package use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from enginebay.rewriting.declaration import RewriterSet

if TYPE_CHECKING:
    import torch

    from enginebay.rewriting.rewriter import Target

rewriters = RewriterSet(fallback=True, distribution="enginebay")


class OnnxGraph(Protocol):
    """The second argument of a symbolic: the ONNX graph that the TorchScript exporter builds."""

    def op(self, name: str, *inputs: torch.Value, **attributes: object) -> torch.Value:
        """Add a node with one output, and return this output."""


def not_dynamo(target: Target) -> bool:
    """Return False for the dynamo exporter, True for another exporter or an unknown one."""
    return target.exporter != "dynamo"


def not_torchscript(target: Target) -> bool:
    """Return False for the TorchScript exporter, True for another exporter or an unknown one."""
    return target.exporter != "torchscript"


def torchscript_only(target: Target) -> bool:
    """Return True for the TorchScript exporter, False for another exporter or an unknown one."""
    return target.exporter == "torchscript"


def is_tracing() -> bool:
    """Return True during ``torch.jit.trace``, which the TorchScript exporter also uses."""
    import torch

    return torch._C._get_tracing_state() is not None
