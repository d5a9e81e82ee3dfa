"""To torch's own two representations: a traced TorchScript module, and an exported program."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

from enginebay.errors import EnginebayError, reason
from enginebay.exporters.export_job import Job, Written, writing
from enginebay.exporters.onnx_export import check_open, open_axes
from enginebay.exporters.open_axes import output_dims
from enginebay.exporters.program_capture import captured, compiled_aside, lowered, traceable
from enginebay.ir import describe, program_specs, quiet
from enginebay.rewriting import active_lowerings, lower_program
from enginebay.tensors import TensorSpec, specs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch
    from torch import Tensor, nn


def export_trace(job: Job) -> Written:
    """Trace the model after one warm-up, and compare the trace with it.

    Where it cannot be traced itself, the graph of ``torch.export`` is.

    The file keeps the names, dtypes and shapes, which TorchScript itself would lose.
    """
    import torch

    with quiet() as notes, torch.no_grad():
        expected = job.flat(*job.tensors)  # the warm-up
        model, reasons = lowered(job)
        traced = _traced(model, job, notes)
        different = _differences(job.output_names, expected, traced(*job.tensors))
        inputs = _opened(specs(job.samples), open_axes(job))
        outputs = specs(dict(zip(job.output_names, expected, strict=True)))
        found = output_dims(job)
        outputs = _opened(outputs, found.axes)
        extra_files = describe(inputs, outputs, job.example_shapes)
        _write(job, lambda file: torch.jit.save(traced, file, _extra_files=extra_files))
    return Written(
        "torch.jit.trace", inputs, outputs, notes=(*notes, *reasons, *found.notes, *different)
    )


def _traced(model: nn.Module, job: Job, notes: list[str]) -> Any:
    """The model's trace, or that of the graph of torch.export where it cannot be traced itself.

    A tracer makes tensors of sizes, and some functions take numbers alone.

    Args:
        model: The model, or its lowered graph.
        job: The export.
        notes: Those of the trace; of a trace that failed none is left.
    """
    import torch

    trace: Any = torch.jit.trace
    try:
        with compiled_aside():
            # torch's own check would run the model twice more, and only warn.
            return trace(model, job.tensors, check_trace=False)
    except EnginebayError:
        raise
    except Exception as err:  # noqa: BLE001 - the model's own code may raise anything
        try:
            program, found = captured(job)
            traced = trace(traceable(program), job.tensors, check_trace=False)
        except Exception:  # noqa: BLE001 - likewise; the first reason is about the tracer
            raise err from None
        note = f"torch.export's graph was traced, because the model cannot be: {reason(err)}"
        notes[:] = [note, *found]
        return traced


def export_torch(job: Job) -> Written:
    """Capture the model with ``torch.export``; the file keeps the names.

    Raises:
        ExportError: A dimension that should stay open came out fixed.
    """
    import torch

    with quiet():
        program, notes = captured(job)
        if (lowerings := active_lowerings()) is not None:
            program = lower_program(program, lowerings)
        symbols = _symbols(program, job)
        inputs, outputs = program_specs(program, list(job.samples), job.output_names, symbols)
        check_open(inputs, job)
        extra_files = describe(inputs, outputs, job.example_shapes)
        _write(job, lambda file: torch.export.save(program, file, extra_files=extra_files))
    return Written("torch.export", inputs, outputs, notes=notes)


def _write(job: Job, save: Callable[[BytesIO], None]) -> None:
    """Save in memory, then write: on a full disk torch's own writer ends the process."""
    memory = BytesIO()
    save(memory)
    with writing(job.target):
        job.target.write_bytes(memory.getbuffer())


def _symbols(program: torch.export.ExportedProgram, job: Job) -> dict[str, str]:
    """The user's names for the open sizes, by torch's."""
    inputs, _ = program_specs(program, list(job.samples))
    return {
        str(spec.dims[axis]): dim.name
        for spec in inputs
        for axis, dim in job.dynamic.get(spec.name, {}).items()
        if spec.dims is not None
    }


def _opened(
    fixed: Sequence[TensorSpec], axes: Mapping[str, Mapping[int, str]] | None
) -> tuple[TensorSpec, ...]:
    """The specs with names for the open axes; without dims where these are unknown."""
    return tuple(
        TensorSpec(spec.name, spec.dtype, None if axes is None else _named(spec, axes))
        for spec in fixed
    )


def _named(spec: TensorSpec, axes: Mapping[str, Mapping[int, str]]) -> tuple[int | str, ...]:
    names = axes.get(spec.name, {})
    return tuple(names.get(axis, size) for axis, size in enumerate(spec.dims or ()))


def _differences(
    names: Sequence[str], expected: Sequence[Tensor], found: Sequence[Tensor]
) -> list[str]:
    """Outputs of the trace that are not the model's: it is random, or took another branch."""
    import torch

    notes = []
    for name, wanted, got in zip(names, expected, found, strict=True):
        try:
            torch.testing.assert_close(got, wanted, equal_nan=True)
        except AssertionError:
            notes.append(f"tracing: output '{name}' of the trace differs from the model's")
    return notes
