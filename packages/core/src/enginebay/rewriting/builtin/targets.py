"""Which exporter a rewriter is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from enginebay.rewriting.rewriter import Target


def not_dynamo(target: Target) -> bool:
    """The TorchScript exporter will run, or it is not known which."""
    return target.exporter != "dynamo"


def torchscript_only(target: Target) -> bool:
    """The TorchScript exporter will run: for what every other reader of the graph takes rightly."""
    return target.exporter == "torchscript"
