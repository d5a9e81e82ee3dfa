"""From a model to an IR file: ONNX, TorchScript or an exported program, whole or in parts."""

from __future__ import annotations

from enginebay.exporters.attempts import ExporterName
from enginebay.exporters.dispatch import export
from enginebay.exporters.partition import split

__all__ = [
    "ExporterName",
    "export",
    "split",
]
