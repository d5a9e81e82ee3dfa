"""Capture of a model as a graph of ATen operators, which can be converted to a traceable module."""

from __future__ import annotations

import operator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from enginebay import rewriting, torch_private
from enginebay.errors import EnginebayError, ExportError, reason
from enginebay.rewriting import active_lowerings, capture, lower_program, observe_operators

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    import torch
    from torch import Tensor, nn
    from torch.export import Dim, ExportedProgram

    from enginebay.exporters.export_job import ExportJob
    from enginebay.torch_private import OpOverload

    Known = Callable[[OpOverload, bool], bool]


#: The note on a model that could be captured only in strict mode, which analyses Python bytecode.
STRICT_MODE_NOTE = "captured in torch.export's strict mode, because the default mode failed"


def capture_program(job: ExportJob) -> tuple[ExportedProgram, tuple[str, ...]]:
    """Capture the model with ``torch.export``, and keep the requested dimensions dynamic.

    Returns:
        The program, and a note for the user if only torch's strict mode worked.
    """
    import torch

    # The modes that torch.onnx tries too, in the same order.
    modes: list[dict[str, Any]] = [{}, {"strict": True}]
    if job.dynamic:  # conditions on sizes that cannot be proved are checked at run time
        modes.insert(1, {"prefer_deferred_runtime_asserts_over_guards": True})
    errors: list[Exception] = []
    for mode in modes:
        try:
            dims = (build_torch_dims(job),) if job.dynamic else None
            with capture_branches():
                program = torch.export.export(job.flat, job.tensors, dynamic_shapes=dims, **mode)
        except EnginebayError:
            raise
        except Exception as err:  # noqa: BLE001 - torch, or the model in it, may raise anything
            errors.append(err)
        else:
            return program, (f"{STRICT_MODE_NOTE}: {reason(errors[0])}",) if mode.get(
                "strict"
            ) else ()
    raise errors[0]


def build_torch_dims(job: ExportJob) -> tuple[dict[int, Dim] | None, ...]:
    """Return the dynamic dimensions for ``torch.export``: one entry for each input."""
    from torch.export import Dim

    # torch.export finds a sum by itself.
    dims = {
        dim.name: Dim.AUTO if dim.is_sum else Dim(dim.name, min=dim.min, max=dim.max)
        for axes in job.dynamic.values()
        for dim in axes.values()
    }
    return tuple(
        {axis: dims[dim.name] for axis, dim in job.dynamic.get(name, {}).items()} or None
        for name in job.samples
    )


def lower_model(
    job: ExportJob, known: Known | None = None, *, always: bool = False
) -> tuple[nn.Module, list[str]]:
    """Return the module to trace (the model itself, or its lowered graph) and notes for the user.

    A tracer has no table of decompositions. The lowered graph of the model is therefore traced if
    the model uses an operator that has a lowering, or if the backend lists the operators that its
    engine supports.

    Args:
        job: The model to lower, with example tensors.
        known: Function that returns True for operators that the exporter translates; None if the
            exporter translates all operators.
        always: True to return the graph even if none of its operators has a lowering.

    Raises:
        ExportError: The model cannot be captured, but the backend lists its engine's operators.
        EnginebayError: A lowering fails, or the engine does not support an operator.
    """
    lowerings = active_lowerings()
    if lowerings is None:
        return job.flat, []
    if lowerings.operators is None and not always:
        names = lowerings.names(known)
        if not names or names.isdisjoint(observe_operators(lambda: job.flat(*job.tensors))):
            return job.flat, []
    fired_before = lowerings.fired
    try:
        # Autograd functions stay whole if an ONNX exporter follows, which has symbolics for them.
        with (
            nullcontext() if known is None else rewriting.preserve_autograd_functions() as functions
        ):
            program, notes = _capture_or_trace(job)
            program = lower_program(program, lowerings, known)
    except EnginebayError:
        raise
    except Exception as err:  # torch.export runs the model's own code, which may raise anything
        line = f"lowerings were not applied, because torch.export failed: {reason(err)}"
        if lowerings.operators is not None:
            raise ExportError(line) from err
        return job.flat, [line]
    if lowerings.operators is None and lowerings.fired == fired_before and not always:
        return job.flat, []
    module = make_traceable(program)
    if functions is not None:
        functions.restore_calls(module)
    return module, [*notes]


def _capture_or_trace(job: ExportJob) -> tuple[ExportedProgram, tuple[str, ...]]:
    """Capture the model with ``torch.export``; if that fails, capture a TorchScript trace of it.

    With dynamic dimensions no trace is tried, since a trace has the fixed sizes of the example.
    """
    try:
        return capture_program(job)
    except EnginebayError:
        raise
    except Exception as err:
        if job.dynamic:
            raise
        try:
            why = f"because the model itself cannot be captured: {reason(err)}"
            return _capture_trace(job), (f"the TorchScript trace was captured, {why}",)
        except Exception:  # noqa: BLE001 - the model's own code; the first error is the clearer one
            raise err from None


def _capture_trace(job: ExportJob) -> ExportedProgram:
    import torch

    trace: Any = torch.jit.trace
    with torch_private.tracing_of_compiled_functions():
        traced = trace(job.flat, job.tensors, check_trace=False)
    return capture(torch.jit.freeze(traced.eval()), job.tensors)


def capture_branches() -> AbstractContextManager[None]:
    """Inside the block, ``torch.cond`` compiles its branches, as ``torch.export`` requires.

    ``torch.export`` compiles no function that ``torch.compile`` wraps.
    """
    import torch

    stance: AbstractContextManager[None] = torch.compiler.set_stance("default")
    return stance


def make_traceable(program: ExportedProgram) -> torch.fx.GraphModule:
    """Return a program as a module that can be traced with dynamic sizes.

    A size that is passed to a Python function of torch stays dynamic in a trace; a size that is
    passed to an operator of ``torch.ops`` becomes constant. So Python functions replace operators.
    """
    import torch

    module: Any = program.module(check_guards=False)
    aten: Any = torch.ops.aten
    functions = {
        aten.sym_size.int: torch.Tensor.size,
        # The tracer has no name for these three, or for an operator that they call.
        aten._to_copy.default: _traceable_to_copy,
        aten._unsafe_view.default: torch.Tensor.reshape,
        aten.fill.Tensor: _traceable_fill,
        # These two have no ONNX symbolic.
        aten._native_batch_norm_legit_no_training.default: _traceable_batch_norm,
        aten._softmax.default: _traceable_softmax,
    }
    for node in module.graph.nodes:
        if node.target is aten._assert_scalar.default:  # a check that a size is valid
            module.graph.erase_node(node)
    module.graph.eliminate_dead_code()
    for node in module.graph.nodes:
        if node.target in functions:
            node.target = functions[node.target]
        elif node.op == "call_function" and any(map(_is_open_size, node.all_input_nodes)):
            node.target = _find_python_function(node.target)
    return torch.fx.GraphModule(module, module.graph)  # drops the program's input checks


def _is_open_size(node: torch.fx.Node) -> bool:
    import torch

    return isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool)


def _find_python_function(target: Callable[..., object]) -> Callable[..., object]:
    import torch

    if target in vars(operator).values():
        return target
    if target is torch.sym_float:
        return _traceable_sym_float
    if not torch_private.is_operator(target):
        raise ExportError(f"{target} cannot be traced with a dynamic size")
    name = torch_private.schema_of(target).name.partition("::")[2]
    if name == "slice":
        return _traceable_slice
    owners = (torch.Tensor, torch, torch_private.nn_functions())
    function: Callable[..., object] | None = next(
        (getattr(owner, name) for owner in owners if hasattr(owner, name)), None
    )
    if function is None:
        raise ExportError(f"{target} cannot be traced with a dynamic size")
    return function


def _traceable_to_copy(x: Tensor, *, dtype: torch.dtype | None = None, **_: object) -> Tensor:
    return x.to(x.dtype if dtype is None else dtype, copy=True)


def _traceable_fill(x: Tensor, value: Tensor) -> Tensor:
    return value.to(x.dtype).expand_as(x)


def _traceable_batch_norm(
    x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, *rest: float
) -> tuple[Tensor]:
    from torch.nn.functional import batch_norm

    return (batch_norm(x, mean, variance, weight, bias, False, *rest),)


def _traceable_softmax(x: Tensor, dim: int, _: bool) -> Tensor:
    return x.softmax(dim)


def _traceable_sym_float(size: float | torch.SymInt) -> object:
    return size * 1.0  # the tracer would record float(size) as a constant


def _traceable_slice(
    x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    return x[(*[slice(None)] * (dim % x.dim()), slice(start, end, step))]
