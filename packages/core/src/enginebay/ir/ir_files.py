"""Reading of an IR from a file of any kind; the suffix tells the kind."""

from __future__ import annotations

from os import fspath
from pathlib import Path

from enginebay.errors import UsageError, check_text, missing_file
from enginebay.ir.model import IRModel


def read_ir(ir: str | Path | IRModel) -> IRModel:
    """Return the IR in a file; an :class:`~enginebay.IRModel` is returned unchanged.

    Raises:
        UsageError: The file is not an IR file, but a Python file, for example.
        ModelSourceError: The file is missing or damaged.
        MissingDependencyError: torch or onnx is not installed.
    """
    from enginebay.ir.onnx_file import read_onnx
    from enginebay.ir.torch_file import read_exported_program, read_torchscript

    if isinstance(ir, IRModel):
        return ir
    check_text(fspath(ir))
    suffix = Path(ir).suffix.lower()
    if suffix not in (".onnx", ".pt", ".pt2"):
        raise UsageError(
            f"'{ir}' is not an IR file: expected .onnx, .pt (TorchScript) or .pt2",
            hint="enginebay export MODEL first, or enginebay deploy MODEL",
        )
    if not Path(ir).exists():
        raise missing_file(str(ir))
    if suffix == ".onnx":
        return read_onnx(ir)
    _, model = read_torchscript(ir) if suffix == ".pt" else read_exported_program(ir)
    return model
