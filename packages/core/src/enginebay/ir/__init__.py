"""Intermediate representations as files: ONNX, TorchScript and exported programs."""

from __future__ import annotations

from enginebay.ir.description import describe
from enginebay.ir.half import to_half
from enginebay.ir.model import IR_FOLDER, SUFFIXES, IRKind, IRModel
from enginebay.ir.noise import no_graph_dump, quiet
from enginebay.ir.onnx_file import read_onnx
from enginebay.ir.torch_file import program_specs, read_exported_program, read_torchscript

__all__ = [
    "IR_FOLDER",
    "SUFFIXES",
    "IRKind",
    "IRModel",
    "describe",
    "no_graph_dump",
    "program_specs",
    "quiet",
    "read_exported_program",
    "read_onnx",
    "read_torchscript",
    "to_half",
]
