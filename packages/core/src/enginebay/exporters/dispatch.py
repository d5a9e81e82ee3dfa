"""A model becomes files: the one way in to every exporter."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from enginebay.environment import require
from enginebay.errors import EnginebayError, ExportError, UsageError
from enginebay.exporters.attempts import ExporterName, Task, all_failed, write_module
from enginebay.exporters.job import Written, staged
from enginebay.ir import (
    SUFFIXES,
    IRKind,
    IRModel,
    program_specs,
    read_exported_program,
    read_torchscript,
)
from enginebay.models import Signature, eager, normalise, read_signature, renamed
from enginebay.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch
    from torch import nn

    from enginebay.exporters.attempts import Patch

_Names: TypeAlias = "tuple[Sequence[str] | None, Sequence[str] | None]"


def export(
    model: nn.Module | torch.export.ExportedProgram | IRModel,
    args: Any = None,
    *,
    ir: IRKind = "onnx",
    path: str | Path,
    exporter: ExporterName | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_shapes: Mapping[str, Any] | None = None,
    opset: int | None = None,
    patch: Patch | None = None,
    signature: Signature | None = None,
) -> IRModel:
    """Export a model.

    It is exported in evaluation mode; afterwards every submodule is back in its own mode. What is
    at ``path`` is replaced when the export has succeeded, and left alone when it has not.

    Args:
        model: A module, TorchScript module or exported program, or an IR that becomes another.
        args: Its example inputs, as :func:`~enginebay.models.signature.read_signature` takes them;
            not needed with ``signature``, nor for an exported program, which brings its own.
        ir: The representation to write.
        path: The main file; the kind's suffix is added where it has none. External weights go to
            ``<path>.data``.
        exporter: The ONNX exporter to use, and no other. By default ``dynamo``, and where that
            fails ``torchscript``, with a note that says why; for TorchScript ``torchscript``.
        input_names: Instead of the parameter names of ``forward``.
        output_names: Instead of the keys of its result.
        dynamic_shapes: The open dimensions, as :func:`~enginebay.models.normalise`
            takes them.
        opset: The ONNX operator set; None for the exporter's own choice.
        patch: Given the model and the exporter's short name (``dynamo``, ``torchscript``,
            ``jit.trace``, ``torch.export``), a context that yields what is exported in the
            model's place: rewriters.
        signature: What :func:`~enginebay.models.signature.read_signature` answered for this model,
            which spares the forward pass that finds it out. Its names are used.

    Raises:
        InputError: The example inputs, names or dynamic shapes do not fit the model.
        ModelError: The model's forward raised.
        ExportError: No exporter could do it, or the files cannot be written.
        MissingDependencyError: torch, onnx or onnxscript is not installed.
    """
    _check_choices(ir, exporter)
    require("torch", *(("onnx", "onnxscript") if ir == "onnx" else ()))
    if isinstance(model, IRModel) and model.kind == ir:
        return model
    names = (input_names, output_names)
    known = model.inputs if isinstance(model, IRModel) else ()
    if isinstance(model, IRModel):
        model, names = _loaded(model, names)
    if _is_program(model) and ir != "torchscript" and exporter != "torchscript":
        _check_fixed(dynamic_shapes)
        names = _signature_names(signature, names)
        write = partial(_write_program, model, ir, names, known, opset)
    else:
        module, args = _module(model, args)
        signature = signature or read_signature(
            module, args, input_names=names[0], output_names=names[1]
        )
        outputs = [spec.name for spec in signature.outputs]
        dynamic = normalise(dynamic_shapes, signature.inputs, outputs)
        task = Task(module, signature, dynamic, opset, patch)
        write = partial(write_module, task, ir, exporter)
    return _placed(Path(path).absolute(), ir, write)


def _placed(path: Path, ir: IRKind, write: Callable[[Path], Written]) -> IRModel:
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


def _write_program(
    program: torch.export.ExportedProgram,
    ir: IRKind,
    names: _Names,
    known: Sequence[TensorSpec],
    opset: int | None,
    target: Path,
) -> Written:
    from enginebay.exporters.onnx_export import export_program
    from enginebay.exporters.torch_export import save_program

    inputs, outputs = program_specs(program)
    input_names = list(renamed("input", {spec.name: spec for spec in inputs}, names[0]))
    output_names = list(renamed("output", {spec.name: spec for spec in outputs}, names[1]))
    if ir == "exported_program":
        return save_program(program, target, input_names, output_names)
    # Only the file's description has the names of open dimensions: the program calls them s0, s27.
    named = zip(input_names, known or inputs, strict=True)
    inputs = tuple(TensorSpec(name, spec.dtype, spec.dims) for name, spec in named)
    try:
        return export_program(program, target, inputs, output_names, opset)
    except EnginebayError:
        raise
    except Exception as err:
        raise all_failed({"the default exporter": err}) from err


def _loaded(model: IRModel, names: _Names) -> tuple[Any, _Names]:
    """The object in a file, and the names its IR gives where the caller gives none."""
    inputs, outputs = (
        [spec.name for spec in specs] or None for specs in (model.inputs, model.outputs)
    )
    names = (names[0] or inputs, names[1] or outputs)
    if model.kind == "torchscript":
        return read_torchscript(model.path)[0], names
    if model.kind == "exported_program":
        return read_exported_program(model.path)[0], names
    raise ExportError(f"'{model.path}' is ONNX, and there is no way back to torch from there")


def _module(model: Any, args: Any) -> tuple[nn.Module, Any]:
    if not _is_program(model):
        return eager(model), args
    if args is None and model.example_inputs is not None:
        positional, keywords = model.example_inputs
        args = (*positional, keywords)
    return model.module(), args


def _signature_names(signature: Signature | None, names: _Names) -> _Names:
    if signature is None:
        return names
    return [spec.name for spec in signature.inputs], [spec.name for spec in signature.outputs]


def _is_program(model: Any) -> TypeGuard[torch.export.ExportedProgram]:
    import torch

    return isinstance(model, torch.export.ExportedProgram)


def _check_choices(ir: str, exporter: str | None) -> None:
    if ir not in SUFFIXES:
        raise UsageError(f"'{ir}' is not a representation; wanted {', '.join(SUFFIXES)}")
    if exporter not in (None, "dynamo", "torchscript"):
        raise UsageError(f"'{exporter}' is not an exporter; wanted dynamo or torchscript")
    if exporter and ir != "onnx":
        raise UsageError(f"exporter='{exporter}' chooses between ONNX exporters; ir is '{ir}'")


def _check_fixed(dynamic_shapes: Mapping[str, Any] | None) -> None:
    if dynamic_shapes:
        message = "an exported program's open dimensions were fixed when it was captured"
        raise UsageError(
            message, hint="pass dynamic_shapes to torch.export.export, or export the model itself"
        )
