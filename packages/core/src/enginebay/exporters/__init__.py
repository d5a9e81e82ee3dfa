"""Export of a model to ONNX, TorchScript or an exported program, as a whole or cut into parts."""

from __future__ import annotations

from enginebay.exporters.draft_export import OnnxDraft, write_draft
from enginebay.exporters.ir_files import check_choices, write_ir

__all__ = [
    "OnnxDraft",
    "check_choices",
    "write_draft",
    "write_ir",
]
