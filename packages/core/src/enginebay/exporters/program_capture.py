"""A model as a graph of ATen operators, and the graph in the model's place for a tracer."""

from __future__ import annotations

import operator
import sys
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from enginebay import rewriting
from enginebay.errors import EnginebayError, ExportError, reason
from enginebay.rewriting import active_lowerings, capture, lower_program, observe_operators

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch
    from torch import nn
    from torch.export import ExportedProgram

    from enginebay.exporters.export_job import Job

    Known = Callable[[torch._ops.OpOverload, bool], bool]


#: The note on a model whose Python had to be read, since it could not be run on stand-ins.
STRICT = "captured in torch.export's strict mode, because its default one failed"


def captured(job: Job) -> tuple[ExportedProgram, tuple[str, ...]]:
    """Capture the model with ``torch.export``, its open dimensions open; with a note on the mode.

    The modes are those that torch.onnx tries.
    """
    import torch

    modes: list[dict[str, Any]] = [{}, {"strict": True}]
    if job.dynamic:  # what a solver cannot prove of open sizes is checked where the program runs
        modes.insert(1, {"prefer_deferred_runtime_asserts_over_guards": True})
    errors: list[Exception] = []
    for mode in modes:
        try:
            dims = (torch_dims(job),) if job.dynamic else None
            program = torch.export.export(job.flat, job.tensors, dynamic_shapes=dims, **mode)
        except EnginebayError:
            raise
        except Exception as err:  # noqa: BLE001 - torch, or the model in it, may raise anything
            errors.append(err)
        else:
            return program, (f"{STRICT}: {reason(errors[0])}",) if mode.get("strict") else ()
    raise errors[0]


def torch_dims(job: Job) -> tuple[dict[int, Any] | None, ...]:
    """The open dimensions as ``torch.export`` takes them: one entry for every input."""
    from torch.export import Dim

    dims = {
        dim.name: Dim(dim.name, min=dim.min, max=dim.max)
        for axes in job.dynamic.values()
        for dim in axes.values()
    }
    return tuple(
        {axis: dims[dim.name] for axis, dim in job.dynamic.get(name, {}).items()} or None
        for name in job.samples
    )


def lowered(
    job: Job, known: Known | None = None, *, always: bool = False
) -> tuple[nn.Module, list[str]]:
    """Return what a tracer is to trace, with notes: the model, or its lowered graph.

    A tracer has no table of decompositions. Where the model meets an operator that has a lowering,
    or the engine's operators are known, it is captured first and the graph is traced.

    Args:
        job: The export.
        known: Tells which operators the exporter translates; None for all.
        always: Return the graph also where nothing in it has a lowering.

    Raises:
        ExportError: The engine's operators are known, and the model cannot be captured.
        EnginebayError: A lowering is wrong, or the engine lacks operators.
    """
    lowerings = active_lowerings()
    if lowerings is None:
        return job.flat, []
    if lowerings.operators is None and not always:
        names = lowerings.names(known)
        if not names or names.isdisjoint(observe_operators(lambda: job.flat(*job.tensors))):
            return job.flat, []
    before = lowerings.fired
    try:
        # The ONNX exporter behind the tracer has symbolics for autograd functions.
        with (
            nullcontext() if known is None else rewriting.preserve_autograd_functions() as functions
        ):
            program, notes = _captured_or_traced(job)
            program = lower_program(program, lowerings, known)
    except EnginebayError:
        raise
    except Exception as err:  # torch.export runs the model's own code, which may raise anything
        line = f"lowerings were not applied, because torch.export failed: {reason(err)}"
        if lowerings.operators is not None:
            raise ExportError(line) from err
        return job.flat, [line]
    if lowerings.operators is None and lowerings.fired == before and not always:
        return job.flat, []
    module = traceable(program)
    if functions is not None:
        functions.restore_calls(module)
    return module, [*notes]


def _captured_or_traced(job: Job) -> tuple[ExportedProgram, tuple[str, ...]]:
    """Capture the model with ``torch.export``, or else its trace, which has the example's sizes."""
    try:
        return captured(job)
    except EnginebayError:
        raise
    except Exception as err:
        if job.dynamic:
            raise
        try:
            return _of_trace(job), (f"captured from its trace, because {reason(err)}",)
        except Exception:  # noqa: BLE001 - the model's own code; the first reason is the plainer one
            raise err from None


def _of_trace(job: Job) -> ExportedProgram:
    import torch

    trace: Any = torch.jit.trace
    with compiled_aside():
        traced = trace(job.flat, job.tensors, check_trace=False)
    return capture(torch.jit.freeze(traced.eval()), job.tensors)


@contextmanager
def compiled_aside() -> Iterator[None]:
    """While a model is traced, trace what ``torch.compile`` wraps as it was written.

    Such functions refuse ``torch.jit.trace``, and step aside for a trace of torch.fx where they
    are told to.
    """
    if "torch._dynamo" not in sys.modules:  # nothing is compiled, and its import takes a second
        yield
        return
    import torch

    tracer: Any = torch.fx._symbolic_trace
    traces = getattr(tracer, "_is_fx_tracing_context", _fx_traces)  # since torch 2.14
    with torch._dynamo.config.patch(error_on_nested_fx_trace=False), traces(True):
        yield


@contextmanager
def _fx_traces(value: bool) -> Iterator[None]:
    """Say that torch.fx traces, to a torch where this is one flag for all threads."""
    import torch

    tracer: Any = torch.fx._symbolic_trace
    before, tracer._is_fx_tracing_flag = tracer._is_fx_tracing_flag, value
    try:
        yield
    finally:
        tracer._is_fx_tracing_flag = before


def traceable(program: ExportedProgram) -> torch.fx.GraphModule:
    """Return a program as a module whose trace keeps open sizes open.

    The tracer follows sizes through torch's Python functions, and takes those that are passed to an
    operator of ``torch.ops`` for constants.
    """
    import torch

    module: Any = program.module(check_guards=False)
    aten: Any = torch.ops.aten
    functions = {
        aten.sym_size.int: torch.Tensor.size,
        aten._to_copy.default: _to_copy,  # which the tracer has no name for
        aten._unsafe_view.default: torch.Tensor.reshape,  # likewise
        aten.fill.Tensor: _fill,  # likewise for what it calls
        aten._native_batch_norm_legit_no_training.default: _batch_norm,  # which has no symbolic
        aten._softmax.default: _softmax,  # likewise
    }
    for node in module.graph.nodes:
        if node.target is aten._assert_scalar.default:  # what a size must be for the example's path
            module.graph.erase_node(node)
    module.graph.eliminate_dead_code()
    for node in module.graph.nodes:
        if node.target in functions:
            node.target = functions[node.target]
        elif node.op == "call_function" and any(map(_is_size, node.all_input_nodes)):
            node.target = _python_function(node.target)
    return torch.fx.GraphModule(module, module.graph)  # without the checks of the inputs


def _is_size(node: torch.fx.Node) -> bool:
    import torch

    return isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool)


def _python_function(target: Any) -> Any:
    """Return torch's Python function for an operator that is called with an open size."""
    import torch

    if target in vars(operator).values():
        return target
    if target is torch.sym_float:
        return _sym_float
    if not isinstance(target, torch._ops.OpOverload):
        raise ExportError(f"{target} of an open size cannot be traced")
    name = target._schema.name.partition("::")[2]
    if name == "slice":
        return _slice
    places = (torch.Tensor, torch, torch._C._nn)
    found = next((getattr(place, name) for place in places if hasattr(place, name)), None)
    if found is None:
        raise ExportError(f"{target} with an open size cannot be traced")
    return found


def _to_copy(x: Any, *, dtype: Any = None, **_: Any) -> Any:
    return x.to(x.dtype if dtype is None else dtype, copy=True)


def _fill(x: Any, value: Any) -> Any:
    return value.to(x.dtype).expand_as(x)


def _batch_norm(x: Any, weight: Any, bias: Any, mean: Any, variance: Any, *rest: float) -> Any:
    from torch.nn.functional import batch_norm

    return (batch_norm(x, mean, variance, weight, bias, False, *rest),)


def _softmax(x: Any, dim: int, _: bool) -> Any:
    return x.softmax(dim)


def _sym_float(size: Any) -> Any:
    return size * 1.0  # the tracer would take float(size) for a constant


def _slice(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    return x[(*[slice(None)] * (dim % x.dim()), slice(start, end, step))]
