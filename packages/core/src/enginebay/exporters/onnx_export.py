"""Export to ONNX with the two exporters of torch, dynamo and TorchScript."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from enginebay import torch_private
from enginebay.errors import ExportError
from enginebay.exporters.export_job import ExportedFiles, ExportJob, report_write_errors
from enginebay.exporters.open_axes import find_output_axes
from enginebay.exporters.program_capture import (
    STRICT_MODE_NOTE,
    build_torch_dims,
    capture_branches,
    lower_model,
)
from enginebay.exporters.sound_optimiser import repair_optimiser
from enginebay.ir import describe, quiet, read_onnx
from enginebay.rewriting import has_symbolic
from enginebay.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import onnx_ir
    from torch import nn
    from torch.onnx import ONNXProgram

#: Larger weights go to a second file. Weights inside the main file are copied three times while it
#: is written (1 GB of Linear layers: a peak of 4.5 GB, and of 1.4 GB with a second file).
INLINE_WEIGHT_BYTES = 32 * 2**20


def export_dynamo(job: ExportJob) -> ExportedFiles:
    """Export with torch's default exporter, which uses ``torch.export``.

    Raises:
        ExportError: A dimension that should be dynamic is fixed in the result, or the result has
            another opset than the requested one.
    """
    return save_program(translate_dynamo(job), job)


def translate_dynamo(job: ExportJob) -> ONNXProgram:
    """Translate the model with torch's default exporter, and write nothing yet.

    Raises:
        ExportError: A dimension that should be dynamic is fixed in the result.
    """
    import torch
    from onnx_ir.passes.common import NameFixPass

    with quiet(), capture_branches(), repair_optimiser() as is_sound:
        program = torch.onnx.export(
            job.flat,
            job.tensors,
            dynamo=True,
            optimize=is_sound,  # an optimiser without the repair could change results
            verbose=False,
            input_names=list(job.samples),
            output_names=list(job.output_names),
            dynamic_shapes=(build_torch_dims(job),) if job.dynamic else None,
            opset_version=job.opset,
        )
        assert program is not None
        # The exporter does not look whether a node's value has the name of an input or output.
        NameFixPass()(program.model)
        check_open_dims(_build_specs(program.model.graph.inputs), job)
        _name_sums(program.model.graph.inputs, job)
        _check_outputs(program, job)
        program.model.metadata_props.update(describe((), (), job.example_shapes))
        return program


def save_program(program: ONNXProgram, job: ExportJob) -> ExportedFiles:
    """Write what :func:`translate_dynamo` returned.

    Raises:
        ExportError: The result has another opset than the requested one.
    """
    written = int(program.model.opset_imports[""])
    if job.opset not in (None, written):
        raise ExportError(
            f"expected opset {job.opset}, found opset {written} in the exporter's result"
        )
    graph = program.model.graph
    weights = [value.const_value for value in graph.initializers.values()]
    size = sum(weight.nbytes for weight in weights if weight is not None)
    with report_write_errors(job.target):
        program.save(job.target, external_data=size > INLINE_WEIGHT_BYTES)
    notes = (STRICT_MODE_NOTE,) if torch_private.captured_strictly(program) else ()
    return ExportedFiles(
        "torch.onnx dynamo", _build_specs(graph.inputs), _build_specs(graph.outputs), written, notes
    )


def export_torchscript(job: ExportJob) -> ExportedFiles:
    """Export with torch's TorchScript exporter, which uses ``torch.jit.trace`` and symbolics."""
    import torch

    with quiet() as notes, torch_private.no_graph_dump():
        outputs = find_output_axes(job)
        model, reasons = lower_model(job, has_symbolic)
        write = partial(
            torch.onnx.export,
            f=str(job.target),
            dynamo=False,
            input_names=list(job.samples),
            output_names=list(job.output_names),
            dynamic_axes=name_open_axes(job) | (outputs.axes or {}),
            opset_version=job.opset,
        )
        try:
            with torch_private.tracing_of_compiled_functions():
                write(_trace_scripted(model, job), job.tensors)
        except torch.onnx.errors.UnsupportedOperatorError:
            if model is not job.flat:
                raise
            # The operator has no symbolic, but torch.export may decompose it into some that have.
            model, reasons = lower_model(job, has_symbolic, always=True)
            if model is job.flat:
                raise
            write(_trace_scripted(model, job), job.tensors)
    _add_metadata(job.target, describe((), (), job.example_shapes))
    written = read_onnx(job.target)
    used = {spec.name for spec in written.inputs}
    unused = [name for name in job.samples if name not in used]
    notes += [*reasons, *outputs.notes]
    notes += [f"input '{name}' is not used by the model and is left out" for name in unused]
    return ExportedFiles(
        "torch.onnx torchscript", written.inputs, written.outputs, written.opset, tuple(notes)
    )


def _add_metadata(path: Path, metadata: dict[str, str]) -> None:
    """Append metadata to an ONNX file without reading the file, which may have gigabytes."""
    # Concatenated protobuf messages are one message, with repeated fields concatenated:
    # https://protobuf.dev/programming-guides/encoding/#last-one-wins
    import onnx

    entries = [onnx.StringStringEntryProto(key=key, value=text) for key, text in metadata.items()]
    with report_write_errors(path), path.open("ab") as file:
        file.write(onnx.ModelProto(metadata_props=entries).SerializeToString())


def _name_sums(inputs: Sequence[onnx_ir.Value], job: ExportJob) -> None:
    """Give the sizes that are sums their names: torch.export has a symbol of its own for each."""
    for value in inputs:
        for axis, dim in job.dynamic.get(value.name or "", {}).items():
            if dim.is_sum and value.shape is not None:
                value.shape[axis] = dim.name


def check_open_dims(inputs: Sequence[TensorSpec], job: ExportJob) -> None:
    """Raise ExportError if a dimension requested as dynamic is fixed in the exported graph."""
    # Needed since torch.onnx retries with suggestions of torch.export, which may fix a size.
    for spec in inputs:
        for axis, dim in job.dynamic.get(spec.name, {}).items():
            if spec.dims is not None and isinstance(size := spec.dims[axis], int):
                where = f"dimension '{dim.name}' (axis {axis} of '{spec.name}')"
                raise ExportError(
                    f"{where}: expected a dynamic size, but the model's code fixes it at {size}",
                    hint="leave this dimension out of 'dynamic'",
                )


def _check_outputs(program: ONNXProgram, job: ExportJob) -> None:
    """Raise ExportError if an output size should depend on a dynamic dimension, but is fixed."""
    # torch 2.13 ends an LSTM or GRU of dynamic length with a Reshape to the example's length.
    # The check costs two forward passes, so it runs only if an output has a fixed shape.
    fixed = [
        value
        for value in program.model.graph.outputs
        if value.shape is not None and value.shape.is_static()
    ]
    axes = find_output_axes(job).axes if job.dynamic and fixed else None
    for value in fixed if axes else ():
        for axis, name in (axes or {}).get(value.name or "", {}).items():
            size = value.shape[axis] if value.shape else None
            raise ExportError(
                f"axis {axis} of output '{value.name}': expected a dynamic size that depends on "
                f"'{name}', found {size}"
            )


def _trace_scripted(model: nn.Module, job: ExportJob) -> nn.Module:
    import torch

    # The exporter's own tracer cannot trace a model with a TorchScript submodule.
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        trace: Callable[..., nn.Module] = torch.jit.trace
        return trace(model, job.tensors, check_trace=False)
    return model


def name_open_axes(job: ExportJob) -> dict[str, dict[int, str]]:
    """Return the names of the dynamic dimensions: input name → axis → name of the dimension."""
    return {
        name: {axis: dim.name for axis, dim in axes.items()} for name, axes in job.dynamic.items()
    }


def _build_specs(values: Sequence[Any]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(value.name, _dtype_name(value), _name_dims(value)) for value in values)


def _dtype_name(value: onnx_ir.Value) -> str:
    return "unknown" if value.dtype is None else str(value.dtype.numpy().name)


def _name_dims(value: onnx_ir.Value) -> tuple[int | str, ...] | None:
    if value.shape is None:
        return None
    return tuple(
        dim if isinstance(dim, int) else dim.value or f"{value.name}_{axis}"
        for axis, dim in enumerate(value.shape)
    )
