"""Intermediate representations (IRs) as files: ONNX, TorchScript and exported programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.ir.draft import Draft as Draft, Obstacle as Obstacle
    from enginebay.ir.file_description import describe as describe
    from enginebay.ir.half_precision import to_half as to_half
    from enginebay.ir.ir_files import (
        is_ir_file as is_ir_file,
        read_and_summarise as read_and_summarise,
        read_ir as read_ir,
        read_model_file as read_model_file,
    )
    from enginebay.ir.model import (
        IR_FOLDER as IR_FOLDER,
        SUFFIXES as SUFFIXES,
        ExporterName as ExporterName,
        IRModel as IRModel,
    )
    from enginebay.ir.model_lines import (
        format_raising_line as format_raising_line,
        is_model_file as is_model_file,
        model_line as model_line,
    )
    from enginebay.ir.muted_output import quiet as quiet
    from enginebay.ir.newer_opset import raise_opset as raise_opset
    from enginebay.ir.node_modules import source_modules as source_modules
    from enginebay.ir.onnx_faults import check_tensors as check_tensors, find_fault as find_fault
    from enginebay.ir.onnx_file import read_inlined as read_inlined, read_onnx as read_onnx
    from enginebay.ir.onnx_summary import summarise_onnx as summarise_onnx
    from enginebay.ir.score_outputs import find_scores as find_scores
    from enginebay.ir.torch_file import (
        program_specs as program_specs,
        read_exported_program as read_exported_program,
        read_torchscript as read_torchscript,
    )


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "ir.draft": "Draft Obstacle",
        "ir.half_precision": "to_half",
        "ir.model": "ExporterName IRModel IR_FOLDER SUFFIXES",
        "ir.ir_files": "is_ir_file read_and_summarise read_ir read_model_file",
        "ir.model_lines": "format_raising_line is_model_file model_line",
        "ir.muted_output": "quiet",
        "ir.onnx_faults": "check_tensors find_fault",
        "ir.onnx_file": "read_inlined read_onnx",
        "ir.onnx_summary": "summarise_onnx",
        "ir.newer_opset": "raise_opset",
        "ir.node_modules": "source_modules",
        "ir.score_outputs": "find_scores",
        "ir.file_description": "describe",
        "ir.torch_file": "program_specs read_exported_program read_torchscript",
    },
)
