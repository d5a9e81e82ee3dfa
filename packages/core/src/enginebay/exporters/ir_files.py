"""Main function of this package: export of a model to the files of an IR."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from enginebay.display import list_files
from enginebay.environment import require
from enginebay.errors import ExportError, UsageError
from enginebay.exporters.export_job import ExportedFiles, stage_files
from enginebay.exporters.exporter_choice import ExportSource, write_module
from enginebay.ir import SUFFIXES, ExporterName, IRModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from enginebay.exporters.exporter_choice import Patch
    from enginebay.models import BoundModel
    from enginebay.params import IRKind
    from enginebay.sources import ModelSource


_log = logging.getLogger("enginebay.exporters")


def write_ir(
    model: BoundModel,
    kind: IRKind,
    path: str | Path,
    *,
    exporter: ExporterName | None = None,
    opset: int | None = None,
    patch: Patch | None = None,
) -> IRModel:
    """Export a model to files.

    The model is exported in evaluation mode; afterwards every submodule is in its previous mode.
    An existing file at ``path`` is replaced only if the export succeeds.

    Args:
        model: The model with its inputs bound.
        kind: The kind of IR to write.
        path: The main file. Without a suffix, the path gets the usual suffix of ``kind``. External
            weights go to ``<path>.data``.
        exporter: The only ONNX exporter to try. By default ``dynamo`` and, if that fails,
            ``torchscript``, with a note on the failure; for a TorchScript model ``torchscript``.
        opset: The ONNX opset; None for the exporter's default.
        patch: Takes the model and the exporter's name (``dynamo``, ``torchscript``, ``jit.trace``,
            ``torch.export``), and returns a context manager that applies the rewriters and yields
            the module to export.

    Raises:
        UsageError: The options cannot be combined, or do not suit the model.
        ExportError: No exporter works, or the files cannot be written.
        MissingDependencyError: torch, onnx or onnxscript is not installed.
    """
    check_choices(model.source, kind, exporter)
    require("torch", *(("onnx", "onnxscript") if kind == "onnx" else ()))
    write = partial(write_module, ExportSource(model, opset, patch), kind, exporter)
    written = write_staged(Path(path).absolute(), kind, write)
    return msgspec.structs.replace(written, example_shapes=model.example_shapes)


def write_staged(path: Path, kind: IRKind, write: Callable[[Path], ExportedFiles]) -> IRModel:
    """Write the files in a temporary folder, move them to ``path``, and return the IR."""
    path = path if path.suffix else path.with_suffix(SUFFIXES[kind])
    with stage_files(path) as staged_path:
        written = write(staged_path)
        siblings = sorted(f.name for f in staged_path.parent.iterdir() if f != staged_path)
    model = IRModel(
        kind=kind,
        path=path,
        files=(path, *(path.parent / name for name in siblings)),
        inputs=written.inputs,
        outputs=written.outputs,
        exporter=written.exporter,
        opset=written.opset,
        notes=written.notes,
    )
    opset = f", opset {model.opset}" if model.opset else ""
    _log.debug("%s by %s%s: %s", kind, model.exporter, opset, list_files(model.files))
    return model


def check_choices(source: ModelSource, kind: str, exporter: str | None) -> None:
    """Check before an export that the model can be exported with these options.

    Raises:
        UsageError: ``kind`` or ``exporter`` is unknown, or the two cannot be combined.
        ExportError: The model is an ONNX file, and ``kind`` is another IR than ONNX.
    """
    if kind not in SUFFIXES:
        raise UsageError(f"unknown IR '{kind}'; available: {', '.join(SUFFIXES)}")
    if exporter not in (None, "dynamo", "torchscript"):
        raise UsageError(f"unknown exporter '{exporter}'; available: dynamo, torchscript")
    if exporter and kind != "onnx":
        raise UsageError(f"exporter='{exporter}' requires ir='onnx'; found ir='{kind}'")
    if source.model is None and kind != "onnx":
        raise ExportError(f"'{source.description}': an ONNX file cannot be converted to {kind}")
