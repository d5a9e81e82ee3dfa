"""Intermediate representations as files: ONNX, TorchScript and exported programs.

A backend needs its types before any file is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.ir.file_description import describe as describe
    from enginebay.ir.half_precision import to_half as to_half
    from enginebay.ir.model import (
        IR_FOLDER as IR_FOLDER,
        SUFFIXES as SUFFIXES,
        ExporterName as ExporterName,
        IRKind as IRKind,
        IRModel as IRModel,
    )
    from enginebay.ir.node_modules import source_modules as source_modules
    from enginebay.ir.noise import (
        is_model_file as is_model_file,
        model_line as model_line,
        no_graph_dump as no_graph_dump,
        quiet as quiet,
        raised_at as raised_at,
    )
    from enginebay.ir.onnx_file import read_onnx as read_onnx
    from enginebay.ir.torch_file import (
        program_specs as program_specs,
        read_exported_program as read_exported_program,
        read_torchscript as read_torchscript,
    )


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "ir.half_precision": "to_half",
        "ir.model": "ExporterName IRKind IRModel IR_FOLDER SUFFIXES",
        "ir.noise": "is_model_file model_line no_graph_dump quiet raised_at",
        "ir.onnx_file": "read_onnx",
        "ir.node_modules": "source_modules",
        "ir.file_description": "describe",
        "ir.torch_file": "program_specs read_exported_program read_torchscript",
    },
)
