"""Exporters: write a model as ONNX, TorchScript or an exported program, whole or in parts."""

from __future__ import annotations

from enginebay.exporters.draft_export import Draft, Obstacle, merged, write_draft
from enginebay.exporters.ir_files import check_choices, write_ir
from enginebay.exporters.partition import split

__all__ = [
    "Draft",
    "Obstacle",
    "check_choices",
    "merged",
    "split",
    "write_draft",
    "write_ir",
]
