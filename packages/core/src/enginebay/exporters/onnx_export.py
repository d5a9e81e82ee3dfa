"""To ONNX, by torch's two exporters."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from enginebay.errors import ExportError
from enginebay.exporters.export_job import Job, Written, writing
from enginebay.exporters.open_axes import output_dims
from enginebay.exporters.program_capture import STRICT, compiled_aside, lowered, torch_dims
from enginebay.exporters.sound_optimiser import sound_optimiser
from enginebay.ir import describe, no_graph_dump, quiet, read_onnx
from enginebay.rewriting import has_symbolic
from enginebay.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


#: Bytes of weights up to which one file holds everything. Inside the file they exist three times
#: over while it is written (1 GB of Linear layers: 4.5 GB peak, and 1.4 GB with a second file).
INLINE_WEIGHTS = 32 * 2**20


def export_dynamo(job: Job) -> Written:
    """Export through ``torch.export``, torch's default exporter.

    Raises:
        ExportError: A dimension that should stay open came out fixed, or the operator set is not
            the wanted one.
    """
    import torch

    with quiet(), sound_optimiser() as sound:
        program = torch.onnx.export(
            job.flat,
            job.tensors,
            dynamo=True,
            optimize=sound,
            verbose=False,
            input_names=list(job.samples),
            output_names=list(job.output_names),
            dynamic_shapes=(torch_dims(job),) if job.dynamic else None,
            opset_version=job.opset,
        )
        assert program is not None
        check_open(_specs(program.model.graph.inputs), job)
        _check_outputs(program, job)
        program.model.metadata_props.update(describe((), (), job.example_shapes))
        return _saved(program, job.target, job.opset)


def export_torchscript(job: Job) -> Written:
    """Export through ``torch.jit.trace`` and the symbolic functions of the older exporter."""
    import torch

    with quiet() as notes, no_graph_dump():
        outputs = output_dims(job)
        model, reasons = lowered(job, has_symbolic)
        write = partial(
            torch.onnx.export,
            f=str(job.target),
            dynamo=False,
            input_names=list(job.samples),
            output_names=list(job.output_names),
            dynamic_axes=open_axes(job) | (outputs.axes or {}),
            opset_version=job.opset,
        )
        try:
            with compiled_aside():
                write(_traced(model, job), job.tensors)
        except torch.onnx.errors.UnsupportedOperatorError:
            if model is not job.flat:
                raise
            # torch itself may take the operator apart, or no input may be part of it.
            model, reasons = lowered(job, has_symbolic, always=True)
            if model is job.flat:
                raise
            write(_traced(model, job), job.tensors)
    _add_metadata(job.target, describe((), (), job.example_shapes))
    written = read_onnx(job.target)
    kept = {spec.name for spec in written.inputs}
    unused = [name for name in job.samples if name not in kept]
    notes += [*reasons, *outputs.notes]
    notes += [f"input '{name}' is not used by the model and is left out" for name in unused]
    return Written(
        "torch.onnx torchscript", written.inputs, written.outputs, written.opset, tuple(notes)
    )


def _add_metadata(path: Path, metadata: dict[str, str]) -> None:
    """Add metadata to a file without reading it, which may hold gigabytes of weights.

    Serialised messages that stand one after the other are one message, with repeated fields
    joined: protobuf's encoding guide, "Last One Wins".
    """
    import onnx

    entries = [onnx.StringStringEntryProto(key=key, value=text) for key, text in metadata.items()]
    with writing(path), path.open("ab") as file:
        file.write(onnx.ModelProto(metadata_props=entries).SerializeToString())


def check_open(inputs: Sequence[TensorSpec], job: Job) -> None:
    """Check that the requested dimensions are open in the exported graph.

    torch.onnx retries with torch.export's own suggestions, and one of these is a fixed size.
    """
    for spec in inputs:
        for axis, dim in job.dynamic.get(spec.name, {}).items():
            if spec.dims is not None and isinstance(size := spec.dims[axis], int):
                where = f"dimension '{dim.name}' (axis {axis} of '{spec.name}')"
                message = f"{where} came out as {size}: the model's code fixes it"
                raise ExportError(message, hint="leave it out of dynamic")


def _saved(program: Any, target: Path, opset: int | None) -> Written:
    """Write an exported graph, with its weights beside it where they are many."""
    found = int(program.model.opset_imports[""])
    if opset not in (None, found):
        raise ExportError(f"the exporter wrote operator set {found} where {opset} was requested")
    graph = program.model.graph
    values = [value.const_value for value in graph.initializers.values()]
    size = sum(value.nbytes for value in values if value is not None)
    with writing(target):
        program.save(target, external_data=size > INLINE_WEIGHTS)
    strict = getattr(program, "_capture_strategy", None) == "TorchExportStrictStrategy"
    notes = (STRICT,) if strict else ()
    return Written("torch.onnx dynamo", _specs(graph.inputs), _specs(graph.outputs), found, notes)


def _check_outputs(program: Any, job: Job) -> None:
    """Check that an output whose size follows an open dimension was not written with a fixed one.

    torch 2.13 ends an LSTM or GRU over an open length with a Reshape to the example's. Two forward
    passes find that out, spent only where an output is all fixed and something is open.
    """
    fixed = [value for value in program.model.graph.outputs if value.shape.is_static()]
    axes = output_dims(job).axes if job.dynamic and fixed else None
    for value in fixed if axes else ():
        for axis, name in (axes or {}).get(value.name, {}).items():
            where = f"axis {axis} of output '{value.name}'"
            raise ExportError(f"{where} came out as {value.shape[axis]}, and follows '{name}'")


def _traced(model: Any, job: Job) -> Any:
    """The model, or its trace where it holds TorchScript: the exporter's own tracer cannot."""
    import torch

    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        trace: Any = torch.jit.trace
        return trace(model, job.tensors, check_trace=False)
    return model


def open_axes(job: Job) -> dict[str, dict[int, str]]:
    """The names of the open axes, by input."""
    return {
        name: {axis: dim.name for axis, dim in axes.items()} for name, axes in job.dynamic.items()
    }


def _specs(values: Sequence[Any]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(value.name, _dtype(value), _dims(value)) for value in values)


def _dtype(value: Any) -> str:
    return "unknown" if value.dtype is None else str(value.dtype.numpy().name)


def _dims(value: Any) -> tuple[int | str, ...] | None:
    if value.shape is None:
        return None
    return tuple(
        dim if isinstance(dim, int) else dim.value or f"{value.name}_{axis}"
        for axis, dim in enumerate(value.shape)
    )
