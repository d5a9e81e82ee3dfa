"""The set of the built-in rewriters, and helpers that several modules of this package use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from enginebay import RewriterSet

if TYPE_CHECKING:
    import torch


rewriters = RewriterSet(fallback=True)


class ExportTarget(Protocol):
    """What the checks of this package read of the argument of a rewriter's ``check``."""

    @property
    def opset(self) -> int | None:
        """The requested ONNX opset; None for the exporter's default."""

    @property
    def exporter(self) -> str | None:
        """The exporter that runs; None if unknown."""


class OnnxGraph(Protocol):
    """The second argument of a symbolic: the ONNX graph that the TorchScript exporter builds."""

    def op(self, name: str, *inputs: torch.Value, **attributes: object) -> torch.Value:
        """Add a node with one output, and return this output."""


def not_dynamo(target: ExportTarget) -> bool:
    """Return False for the dynamo exporter, True for another exporter or an unknown one."""
    return target.exporter != "dynamo"


def not_torchscript(target: ExportTarget) -> bool:
    """Return False for the TorchScript exporter, True for another exporter or an unknown one."""
    return target.exporter != "torchscript"


def torchscript_only(target: ExportTarget) -> bool:
    """Return True for the TorchScript exporter, False for another exporter or an unknown one."""
    return target.exporter == "torchscript"


def is_tracing() -> bool:
    """Return True during ``torch.jit.trace``, which the TorchScript exporter also uses."""
    import torch

    return bool(torch.jit.is_tracing())  # type: ignore[attr-defined,no-untyped-call]  # untyped
