"""From a model to an IR file: ONNX, TorchScript or an exported program, whole or in parts."""

from __future__ import annotations

from enginebay.exporters.attempts import ExporterName
from enginebay.exporters.dispatch import check_choices, write_ir
from enginebay.exporters.partition import split

__all__ = [
    "ExporterName",
    "check_choices",
    "split",
    "write_ir",
]
