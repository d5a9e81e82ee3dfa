"""Reading of an IR from a file of any kind; the suffix tells the kind, or else the content."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.errors import UsageError, check_text, missing_file
from enginebay.ir.model import SUFFIXES, IRModel
from enginebay.ir.torch_archive import is_torchscript

if TYPE_CHECKING:
    from enginebay.ir.onnx_summary import ONNXSummary
    from enginebay.ir.torch_summary import TorchSummary
    from enginebay.params import IRKind

#: Further suffixes that people give to TorchScript files.
_TORCHSCRIPT_SUFFIXES = (".jit", ".ts", ".torchscript", ".ptl")


def read_ir(ir: str | Path | IRModel) -> IRModel:
    """Return the IR in a file; an :class:`~enginebay.IRModel` is returned unchanged.

    Raises:
        UsageError: The argument is no path, or its file is not an IR file, but a Python file.
        ModelSourceError: The file is missing or damaged.
        MissingDependencyError: torch or onnx is not installed.
    """
    if isinstance(ir, IRModel):
        return ir
    if isinstance(ir, str | PathLike):
        check_text(fspath(ir))
    if not (isinstance(ir, str | PathLike) and is_ir_file(ir)):
        raise UsageError(
            f"'{ir}' is not an IR file: expected .onnx, .pt (TorchScript) or .pt2",
            hint="enginebay export MODEL first, or enginebay deploy MODEL",
        )
    return read_model_file(ir)[1]


def is_ir_file(path: str | Path) -> bool:
    """Return True if a path has the suffix of an IR, or leads to a TorchScript file."""
    return _find_kind(Path(path)) is not None


def _find_kind(path: Path) -> IRKind | None:
    suffix = path.suffix.lower()
    kinds = {own: kind for kind, own in SUFFIXES.items()}
    if known := kinds.get(suffix):
        return known
    return "torchscript" if suffix in _TORCHSCRIPT_SUFFIXES or is_torchscript(path) else None


def read_model_file(path: str | Path) -> tuple[Any, IRModel]:
    """Return the model in the file of an IR (None for an ONNX file), and the IR.

    The model is a TorchScript module or an exported program.

    Raises:
        ModelSourceError: The file is missing or damaged.
        MissingDependencyError: torch or onnx is not installed.
    """
    from enginebay.ir.onnx_file import read_onnx
    from enginebay.ir.torch_file import read_exported_program, read_torchscript

    if not Path(path).exists():
        raise missing_file(str(path))
    kind = _find_kind(Path(path))
    if kind == "onnx":
        return None, read_onnx(path)
    return read_torchscript(path) if kind == "torchscript" else read_exported_program(path)


def read_and_summarise(path: Path) -> tuple[Any, IRModel, ONNXSummary | TorchSummary]:
    """Return the model in a file as :func:`read_model_file`, and what it contains, parsed once.

    Raises:
        ModelSourceError: The file is missing or damaged.
        MissingDependencyError: torch or onnx is not installed.
    """
    if path.suffix.lower() != SUFFIXES["onnx"] or not path.exists():
        from enginebay.ir.torch_summary import summarise_torch

        model, ir = read_model_file(path)
        return model, ir, summarise_torch(model, ir.path)
    from enginebay.ir.onnx_file import describe_proto, parse_onnx
    from enginebay.ir.onnx_outline import measure_duplicates
    from enginebay.ir.onnx_summary import summarise_proto

    proto = parse_onnx(path)
    summary = summarise_proto(proto, measure_duplicates(path))
    return None, describe_proto(proto, path.absolute()), summary
