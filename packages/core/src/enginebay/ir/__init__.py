"""Intermediate representations as files: ONNX, TorchScript and exported programs.

A backend needs its types before any file is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.ir.half import to_half
    from enginebay.ir.model import IR_FOLDER, SUFFIXES, ExporterName, IRKind, IRModel
    from enginebay.ir.noise import model_line, no_graph_dump, quiet
    from enginebay.ir.onnx_file import read_onnx
    from enginebay.ir.scopes import source_modules
    from enginebay.ir.summary import describe
    from enginebay.ir.torch_file import program_specs, read_exported_program, read_torchscript

__all__ = [
    "IR_FOLDER",
    "SUFFIXES",
    "ExporterName",
    "IRKind",
    "IRModel",
    "describe",
    "model_line",
    "no_graph_dump",
    "program_specs",
    "quiet",
    "read_exported_program",
    "read_onnx",
    "read_torchscript",
    "source_modules",
    "to_half",
]

__getattr__ = lazy_names(
    __name__,
    {
        "ExporterName": "ir.model",
        "IRKind": "ir.model",
        "IRModel": "ir.model",
        "IR_FOLDER": "ir.model",
        "SUFFIXES": "ir.model",
        "describe": "ir.summary",
        "model_line": "ir.noise",
        "no_graph_dump": "ir.noise",
        "program_specs": "ir.torch_file",
        "quiet": "ir.noise",
        "read_exported_program": "ir.torch_file",
        "read_onnx": "ir.onnx_file",
        "read_torchscript": "ir.torch_file",
        "source_modules": "ir.scopes",
        "to_half": "ir.half",
    },
)
