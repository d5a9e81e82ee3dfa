"""A model becomes files: the one way in to every exporter."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from enginebay.environment import require
from enginebay.errors import ExportError, UsageError
from enginebay.exporters.export_job import Written, staged
from enginebay.exporters.exporter_choice import ExportSource, write_module
from enginebay.ir import SUFFIXES, ExporterName, IRKind, IRModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from enginebay.exporters.exporter_choice import Patch
    from enginebay.models import BoundModel, ModelSource


def write_ir(
    model: BoundModel,
    kind: IRKind,
    path: str | Path,
    *,
    exporter: ExporterName | None = None,
    opset: int | None = None,
    patch: Patch | None = None,
) -> IRModel:
    """Export a model.

    It is exported in evaluation mode; afterwards every submodule is back in its own mode. What is
    at ``path`` is replaced when the export has succeeded, and left alone when it has not.

    Args:
        model: The model with its inputs bound.
        kind: The representation to write.
        path: The main file; the kind's suffix is added where it has none. External weights go to
            ``<path>.data``.
        exporter: The ONNX exporter to use, and no other. By default ``dynamo``, and where that
            fails ``torchscript``, with a note that says why; for TorchScript ``torchscript``.
        opset: The ONNX operator set; None for the exporter's own choice.
        patch: Given the model and the exporter's short name (``dynamo``, ``torchscript``,
            ``jit.trace``, ``torch.export``), a context that yields what is exported in the
            model's place: rewriters.

    Raises:
        UsageError: The choices do not fit each other, or the model.
        ExportError: No exporter could do it, or the files cannot be written.
        MissingDependencyError: torch, onnx or onnxscript is not installed.
    """
    check_choices(model.source, kind, exporter)
    require("torch", *(("onnx", "onnxscript") if kind == "onnx" else ()))
    write = partial(write_module, ExportSource(model, opset, patch), kind, exporter)
    written = placed(Path(path).absolute(), kind, write)
    return msgspec.structs.replace(written, example_shapes=model.example_shapes)


def placed(path: Path, ir: IRKind, write: Callable[[Path], Written]) -> IRModel:
    """Write the files, move them into place, and describe them there."""
    path = path if path.suffix else path.with_suffix(SUFFIXES[ir])
    with staged(path) as stage:
        written = write(stage)
        beside = sorted(file.name for file in stage.parent.iterdir() if file != stage)
    return IRModel(
        kind=ir,
        path=path,
        files=(path, *(path.parent / name for name in beside)),
        inputs=written.inputs,
        outputs=written.outputs,
        exporter=written.exporter,
        opset=written.opset,
        notes=written.notes,
    )


def check_choices(source: ModelSource, kind: str, exporter: str | None) -> None:
    """Check, before anything runs, that a model can become this representation.

    Raises:
        UsageError: An unknown representation or exporter, or two that do not fit.
        ExportError: The model is an ONNX file, and the representation is one of torch's.
    """
    if kind not in SUFFIXES:
        raise UsageError(f"'{kind}' is not a representation; wanted {', '.join(SUFFIXES)}")
    if exporter not in (None, "dynamo", "torchscript"):
        raise UsageError(f"'{exporter}' is not an exporter; wanted dynamo or torchscript")
    if exporter and kind != "onnx":
        raise UsageError(f"exporter='{exporter}' chooses between ONNX exporters; ir is '{kind}'")
    if source.model is None and kind != "onnx":
        raise ExportError(
            f"'{source.description}' is ONNX, and there is no way back to torch from there"
        )
