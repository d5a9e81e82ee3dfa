"""Export to the formats of torch: a traced TorchScript module, or an exported program."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

from enginebay import torch_private
from enginebay.errors import EnginebayError, reason
from enginebay.exporters.export_job import ExportedFiles, ExportJob, report_write_errors
from enginebay.exporters.onnx_export import check_open_dims, name_open_axes
from enginebay.exporters.open_axes import find_output_axes
from enginebay.exporters.program_capture import (
    capture_program,
    lower_model,
    make_traceable,
)
from enginebay.ir import describe, program_specs, quiet
from enginebay.rewriting import active_lowerings, lower_program
from enginebay.tensors import TensorSpec, specs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch
    from torch import Tensor, nn


def export_trace(job: ExportJob) -> ExportedFiles:
    """Trace the model after one warm-up run, and write the file.

    A note in the result describes each output that differs between the model and the trace. If the
    model cannot be traced, the graph that ``torch.export`` captures is traced. The file also
    contains the specs of inputs and outputs, which TorchScript itself does not store.
    """
    import torch

    with quiet() as notes, torch.no_grad():
        expected = job.flat(*job.tensors)  # the warm-up
        model, reasons = lower_model(job)
        traced = _trace_model(model, job, notes)
        different = _compare_outputs(job.output_names, expected, traced(*job.tensors))
        inputs = _open_specs(specs(job.samples), name_open_axes(job))
        outputs = specs(dict(zip(job.output_names, expected, strict=True)))
        output_axes = find_output_axes(job)
        outputs = _open_specs(outputs, output_axes.axes)
        extra_files = describe(inputs, outputs, job.example_shapes)
        _save_file(job, lambda file: torch.jit.save(traced, file, _extra_files=extra_files))
    return ExportedFiles(
        "torch.jit.trace", inputs, outputs, notes=(*notes, *reasons, *output_axes.notes, *different)
    )


def _trace_model(model: nn.Module, job: ExportJob, notes: list[str]) -> torch.jit.ScriptModule:
    """Trace the model or, if that fails, the graph that ``torch.export`` captures.

    A tracer turns sizes into tensors, which some functions of torch do not accept. If the graph is
    traced, a note with the reason, and the notes of the capture, replace the items of ``notes``.
    """
    import torch

    trace: Callable[..., torch.jit.ScriptModule] = torch.jit.trace
    try:
        with torch_private.tracing_of_compiled_functions():
            # Not torch's own check, which runs the model twice more and only warns.
            return trace(model, job.tensors, check_trace=False)
    except EnginebayError:
        raise
    except Exception as err:  # noqa: BLE001 - the model's own code may raise anything
        try:
            program, capture_notes = capture_program(job)
            traced = trace(make_traceable(program), job.tensors, check_trace=False)
        except Exception:  # noqa: BLE001 - the model's own code; the first error is the clearer one
            raise err from None
        why = f"because the model itself cannot be traced: {reason(err)}"
        note = f"torch.export's graph was traced, {why}"
        notes[:] = [note, *capture_notes]
        return traced


def export_torch(job: ExportJob) -> ExportedFiles:
    """Capture the model with ``torch.export``, and write it with the user's input and output names.

    Raises:
        ExportError: A dimension that should be dynamic is fixed in the program.
    """
    import torch

    with quiet():
        program, notes = capture_program(job)
        if (lowerings := active_lowerings()) is not None:
            program = lower_program(program, lowerings)
        symbols = _map_symbols(program, job)
        inputs, outputs = program_specs(program, list(job.samples), job.output_names, symbols)
        check_open_dims(inputs, job)
        extra_files = describe(inputs, outputs, job.example_shapes)
        _save_file(job, lambda file: torch.export.save(program, file, extra_files=extra_files))
    return ExportedFiles("torch.export", inputs, outputs, notes=notes)


def _save_file(job: ExportJob, save: Callable[[BytesIO], None]) -> None:
    # Saved in memory first: on a full disk torch's own file writer ends the process.
    memory = BytesIO()
    save(memory)
    with report_write_errors(job.target):
        job.target.write_bytes(memory.getbuffer())


def _map_symbols(program: torch.export.ExportedProgram, job: ExportJob) -> dict[str, str]:
    """Return torch's symbol for a dynamic size → the user's name of the dimension."""
    inputs, _ = program_specs(program, list(job.samples))
    return {
        str(spec.dims[axis]): dim.name
        for spec in inputs
        for axis, dim in job.dynamic.get(spec.name, {}).items()
        if spec.dims is not None
    }


def _open_specs(
    fixed: Sequence[TensorSpec], axes: Mapping[str, Mapping[int, str]] | None
) -> tuple[TensorSpec, ...]:
    """Return specs with a name for each dynamic size, or with unknown dims if ``axes`` is None."""
    return tuple(
        TensorSpec(spec.name, spec.dtype, None if axes is None else _name_open_dims(spec, axes))
        for spec in fixed
    )


def _name_open_dims(
    spec: TensorSpec, axes: Mapping[str, Mapping[int, str]]
) -> tuple[int | str, ...]:
    names = axes.get(spec.name, {})
    return tuple(names.get(axis, size) for axis, size in enumerate(spec.dims or ()))


def _compare_outputs(
    names: Sequence[str], expected: Sequence[Tensor], traced: Sequence[Tensor]
) -> list[str]:
    """Return a note for each output that differs between the trace and the model.

    Outputs differ if the model is random, or if the model takes another branch than the trace.
    """
    import torch

    notes = []
    for name, reference, output in zip(names, expected, traced, strict=True):
        try:
            # The model itself may return NaN, so NaN in both is no difference.
            torch.testing.assert_close(output, reference, equal_nan=True)
        except AssertionError:
            notes.append(f"tracing: output '{name}' of the trace differs from the model's")
    return notes
