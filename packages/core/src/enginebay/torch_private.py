"""All private names of torch that core uses: a function for each, with the reason.

torch may rename or remove them in any release. ``tests/test_torch_private.py`` runs each function
on an example, so that a run with a new torch lists the names that it has changed; and no other file
of core may name one. The file names below are relative to torch's package, as of torch 2.13. torch
is imported inside the functions. Where a call must cost no more than torch's own function, the
function returns this function for the caller to keep.
"""

from __future__ import annotations

import functools
import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import ModuleType
    from typing import TypeGuard

    import torch
    from torch import FunctionSchema, Tensor, nn
    from torch._ops import OperatorBase as OperatorBase, OpOverload as OpOverload
    from torch.export import ExportedProgram
    from torch.export._draft_export import DraftExportReport as DraftExportReport
    from torch.fx import GraphModule, Node
    from torch.onnx._internal.exporter._registration import ONNXRegistry as ONNXRegistry
    from torch.onnx._internal.torchscript_exporter.jit_utils import GraphContext as GraphContext
    from torch.overrides import TorchFunctionMode

_T = TypeVar("_T")


def import_torch() -> None:
    """Import torch with the compiler, which the first run of a model under a mode imports.

    Without torch nothing happens: the import of the model says what needs it.

    ``_dynamo``: no public module imports it. The collector of garbage, of which imports leave none,
    would scan the million objects that they make again and again.
    """
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        import torch._dynamo  # noqa: F401
    except (ImportError, OSError):
        pass
    finally:
        if is_collecting:
            gc.enable()


# Operators


def is_operator(value: object) -> TypeGuard[OpOverload]:
    """Return True for an overload of an operator, such as ``torch.ops.aten.max.dim``.

    ``_ops.py``: torch's documentation names the class, but no public module has it.
    """
    from torch._ops import OpOverload

    return isinstance(value, OpOverload)


def is_from_ops(value: object) -> bool:
    """Return True for everything in ``torch.ops``: operators, overloads, higher-order operators.

    ``_ops.py``: their classes have no public name. It does not import torch.
    """
    return type(value).__module__ == "torch._ops"


@overload
def schema_of(target: OpOverload) -> FunctionSchema: ...
@overload
def schema_of(target: object) -> FunctionSchema | None: ...
def schema_of(target: object) -> FunctionSchema | None:
    """Return an overload's schema: its name, arguments and results; None for other functions.

    ``_ops.py``: the schema is a private attribute of overloads.
    """
    return getattr(target, "_schema", None)


def all_operator_names() -> list[str]:
    """Return the names of all registered operators, such as ``aten::max.dim``.

    ``_C``: ``dir(torch.ops)`` has only those that were used before.
    """
    import torch

    return torch._C._dispatch_get_all_op_names()


def decompositions_without_prims() -> dict[OperatorBase, Callable[..., object]]:
    """Return torch's decompositions except those in ``torch._refs``, which use prims.

    ``_decomp/__init__.py``: ``torch.export.default_decompositions()`` has only those for operators
    outside the core ATen operators.
    """
    from torch._decomp import decomposition_table

    return {
        operator: function
        for operator, function in decomposition_table.items()
        if not function.__module__.startswith("torch._refs")
    }


def destroy_library(library: object) -> None:
    """Remove the operators of a ``torch.library.Library``.

    ``library.py``: otherwise they stay until the library is garbage-collected.
    """
    library._destroy()  # type: ignore[attr-defined]  # see above


# Nested structures (pytrees)


def tree_leaves(tree: object) -> list[Any]:
    """Return the leaves of a nested structure.

    ``utils/_pytree.py``: torch's own structures are registered in it alone.
    """
    from torch.utils._pytree import tree_leaves

    return tree_leaves(tree)


def tree_map(function: Callable[[Any], object], tree: Any) -> Any:
    """Return a nested structure with ``function`` applied to each leaf.

    ``utils/_pytree.py``, as for :func:`tree_leaves`.
    """
    from torch.utils._pytree import tree_map

    return tree_map(function, tree)


def flatten_tree(tree: object) -> tuple[list[Any], Any]:
    """Return the leaves of a nested structure, and its ``TreeSpec``.

    ``utils/_pytree.py``, as for :func:`tree_leaves`. Module call signatures of exported programs
    contain such specs too.
    """
    from torch.utils._pytree import tree_flatten

    return tree_flatten(tree)


def flatten_node(value: object) -> tuple[list[Any], Any] | None:
    """Return the children of a container, and its ``TreeSpec``; None for types unknown to torch.

    ``utils/_pytree.py``, as for :func:`tree_leaves`. Its table has the types that models register.
    """
    from torch.utils._pytree import SUPPORTED_NODES, tree_flatten

    if type(value) not in SUPPORTED_NODES:
        return None
    return tree_flatten(value, is_leaf=lambda part: part is not value)


def unflatten_tree(leaves: Iterable[object], spec: Any) -> Any:
    """Return the nested structure of a ``TreeSpec`` with these leaves.

    ``utils/_pytree.py``, as for :func:`tree_leaves`.
    """
    from torch.utils._pytree import tree_unflatten

    return tree_unflatten(leaves, spec)


# Modes of the dispatcher


def dispatch_mode_class() -> type:
    """Return the base class of modes that receive every operator that runs.

    ``utils/_python_dispatch.py``: ``torch.overrides`` has only the mode for functions.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    return TorchDispatchMode


def without_modes() -> AbstractContextManager[object]:
    """Return a context manager in which no mode is active, so that operators compute values.

    ``utils/_python_dispatch.py``: there is no public way.
    """
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


class FunctionModeStack(NamedTuple):
    """Functions for the current thread's stack of torch function modes.

    Attributes:
        depth: Returns the number of modes.
        at: Returns the mode at an index; index 0 is the outermost mode.
        push: Adds a mode as the innermost one.
        pop: Removes the innermost mode.
    """

    depth: Callable[[], int]
    at: Callable[[int], TorchFunctionMode]
    push: Callable[[TorchFunctionMode], None]
    pop: Callable[[], object]


def function_mode_stack() -> FunctionModeStack:
    """Return torch's own functions for the stack of torch function modes.

    ``_C``: ``torch.overrides`` only enters and leaves modes.
    """
    from torch import _C

    return FunctionModeStack(
        _C._len_torch_function_stack,
        _C._get_function_stack_at,
        _C._push_on_torch_function_stack,
        _C._pop_torch_function_stack,
    )


def torch_function_check() -> Callable[[], bool]:
    """Return torch's function that returns False inside ``torch._C.DisableTorchFunction``.

    ``_C``: there is no public way.
    """
    from torch._C import _is_torch_function_enabled

    return _is_torch_function_enabled


def disabled_torch_function() -> object:
    """Return the ``__torch_function__`` of classes that do not override functions.

    ``_C``: ``nn.Parameter.__torch_function__`` is the same, wrapped in a descriptor.
    """
    from torch._C import _disabled_torch_function_impl

    return _disabled_torch_function_impl


def register_script_builtin(function: Callable[..., object], operator: str) -> None:
    """Let ``torch.jit.script`` compile calls of a Python function to a TorchScript operator.

    ``jit/_builtins.py``: there is no public way.
    """
    from torch.jit._builtins import _register_builtin

    _register_builtin(function, operator)


#: The modules in whose functions torch checks for overrides of functions (see below).
_CHECKING_MODULES = (
    *("torch.functional", "torch.nn.functional"),
    *("torch._tensor", "torch._lowrank", "torch._lobpcg"),
)


def modules_with_override_checks() -> tuple[ModuleType, ...]:
    """Return the modules whose Python functions pass themselves to torch function modes.

    ``_tensor.py``, ``_lowrank.py``, ``_lobpcg.py`` and two public modules: functions of the former
    have public names in ``torch``, but they look up the check in their own module.
    """
    import torch  # noqa: F401  # which imports them

    return tuple(map(sys.modules.__getitem__, _CHECKING_MODULES))


def is_tensor_attribute(value: object) -> bool:
    """Return True for a method or property of tensors that is written in C.

    ``_C``: they belong to a private base class of ``torch.Tensor``. It does not import torch.
    """
    owner = getattr(value, "__objclass__", None)
    return "TensorBase" in getattr(owner, "__name__", "")


def exporters_own_functions() -> tuple[str, ...]:
    """Return the dotted names of the exporters' functions that run code which is not the model's.

    They call thousands of torch functions: ``jit/_trace.py``, ``export/exported_program.py``,
    ``_export/utils.py`` and both exporters in ``onnx/_internal``. With a torch that lacks one of
    them, exports only take longer.
    """
    return (
        "torch.jit._trace._unique_state_dict",
        "torch.onnx._internal.torchscript_exporter.utils._optimize_graph",
        "torch._export.utils._fakify_params_buffers",
        "torch.export.exported_program.ExportedProgram.run_decompositions",
        "torch.onnx._internal.exporter._core._exported_program_to_onnx_program",
    )


# Fake and functional tensors


def is_fake(value: object) -> TypeGuard[Tensor]:
    """Return True for a tensor without data, as captures use them.

    ``_subclasses/fake_tensor.py``: there is no public way.
    """
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(value, FakeTensor)


def find_fake_mode(tensors: Sequence[Tensor]) -> Any:
    """Return the mode that makes fake tensors like these; None if none of them is fake.

    ``_guards.py``: there is no public way.
    """
    from torch._guards import detect_fake_mode

    return detect_fake_mode(tensors)


def data_dependence_error() -> type[Exception]:
    """Return the exception that is raised if a fake tensor's values are read.

    ``_subclasses/fake_tensor.py``: there is no public way.
    """
    from torch._subclasses.fake_tensor import DataDependentOutputException

    return DataDependentOutputException


def unwrap_functional(value: object) -> Any:
    """Return the tensor inside a ``FunctionalTensor``; return any other value as it is.

    ``_subclasses/functional_tensor.py`` and ``_C``: ``torch.func`` functionalizes whole functions.
    """
    import torch
    from torch._subclasses.functional_tensor import FunctionalTensor

    if not isinstance(value, FunctionalTensor):
        return value
    torch._sync(value)  # type: ignore[attr-defined,no-untyped-call]  # private, and untyped
    return torch._from_functional_tensor(value.elem)


def count_writes(value: object) -> int:
    """Return the number of writes to a ``FunctionalTensor`` so far; 0 for any other value.

    ``_subclasses/functional_tensor.py`` and ``_C``, as for :func:`unwrap_functional`.
    """
    import torch
    from torch._subclasses.functional_tensor import FunctionalTensor

    if not isinstance(value, FunctionalTensor):
        return 0
    return torch._functionalize_mutation_counter(value.elem)


def version_of(tensor: Tensor) -> int:
    """Return a counter that each in-place write to a tensor increments.

    ``_C``: there is no public way.
    """
    return tensor._version


# Modules


def children_of(module: nn.Module) -> dict[str, nn.Module | None]:
    """Return the dictionary that holds a module's children.

    ``nn/modules/module.py``: ``named_children()`` has each child once and leaves out None.
    """
    return module._modules


def set_children(module: nn.Module, children: Mapping[str, Any]) -> None:
    """Replace the dictionary that holds a module's children.

    ``nn/modules/module.py``, as for :func:`children_of`.
    """
    vars(module)["_modules"] = children


def parameters_of(module: nn.Module) -> dict[str, nn.Parameter | None]:
    """Return the dictionary that holds a module's own parameters.

    ``nn/modules/module.py``: exporters too replace parameters in this dictionary.
    """
    return module._parameters


def buffers_of(module: nn.Module) -> dict[str, Tensor | None]:
    """Return the dictionary that holds a module's own buffers.

    ``nn/modules/module.py``, as for :func:`parameters_of`.
    """
    return module._buffers


def share_tensors(module: nn.Module, owner: nn.Module) -> None:
    """Let a module have the same parameters and buffers as ``owner``, now and later.

    ``nn/modules/module.py``: registration would copy the references, but exporters replace tensors
    in these dictionaries.
    """
    module._parameters = owner._parameters
    module._buffers = owner._buffers
    module._non_persistent_buffers_set |= owner._non_persistent_buffers_set


def state_attributes() -> tuple[str, ...]:
    """Return the attributes that hold a module's own parameters, buffers and children.

    ``nn/modules/module.py``: they are what a module's ``__dict__`` contains.
    """
    return ("_parameters", "_buffers", "_modules")


def hook_attributes() -> tuple[str, ...]:
    """Return the attributes that hold a module's forward hooks, and the flags of hooks.

    ``nn/modules/module.py``: hooks can be registered publicly, but not read.
    """
    return (
        "_forward_hooks",
        "_forward_hooks_with_kwargs",
        "_forward_hooks_always_called",
        "_forward_pre_hooks",
        "_forward_pre_hooks_with_kwargs",
    )


def script_method_names(module: torch.jit.ScriptModule) -> list[str]:
    """Return the names of a TorchScript module's methods.

    ``jit/_script.py``: ``_c`` is the module in C++; no public name lists its methods.
    """
    names: list[str] = module._c._method_names()
    return names


def script_attribute_names(module: torch.jit.ScriptModule) -> set[str]:
    """Return the names of the attributes that the methods of a TorchScript module read or write.

    ``jit/_script.py``: a loaded module lists only its parameters and buffers.
    """
    names = set()
    for each in module.modules():
        own: Any = each._c
        for method in own._method_names():
            graph = own._get_method(method).graph
            for kind in ("prim::GetAttr", "prim::SetAttr"):
                names |= {node.s("name") for node in graph.findAllNodes(kind)}
    return names


def batch_norm_class() -> type[nn.Module]:
    """Return the base class of modules with running statistics, such as ``nn.BatchNorm2d``.

    ``nn/modules/batchnorm.py``: subclasses in other libraries derive from it.
    """
    from torch.nn.modules.batchnorm import _BatchNorm

    return _BatchNorm


def unwrap_compiled_module(module: _T) -> _T:
    """Return the module that ``torch.compile`` wraps, or the module itself.

    ``_dynamo/eval_frame.py``: there is no public way.
    """
    return getattr(module, "_orig_mod", module)


def unwrap_compiled_function(function: _T) -> _T:
    """Return the function that ``torch.compile`` wraps, or the function itself.

    ``_dynamo/eval_frame.py``: there is no public way.
    """
    return getattr(function, "_torchdynamo_orig_callable", function)


def argument_structure_of(module: object) -> Any:
    """Return the ``TreeSpec`` of an exported program's arguments; None for any other module.

    ``fx/graph.py`` and ``export/_unlift.py``: ``ExportedProgram.module()`` has no public one.
    """
    return getattr(module, "_in_spec", None)


# Capture


def is_dynamo_loaded() -> bool:
    """Return True if a function may have been compiled; importing it takes a second.

    ``_dynamo``: ``torch.compiler`` imports it.
    """
    return "torch._dynamo" in sys.modules


def forget_compiled() -> None:
    """Forget what was compiled, if anything was.

    ``_dynamo``: ``torch.cond`` compiles itself, and fails outside of the dispatch modes under which
    it was compiled. ``torch.compiler.reset`` would import it.
    """
    if dynamo := sys.modules.get("torch._dynamo"):
        dynamo.reset()


@contextmanager
def tracing_of_compiled_functions() -> Iterator[None]:
    """Inside the block, functions that ``torch.compile`` wraps are traced and not compiled.

    ``_dynamo/config.py`` and ``fx/_symbolic_trace.py``: such a function runs uncompiled if torch.fx
    reports that it traces, and if nested traces are no error. ``torch.compiler.set_stance`` does
    not have this effect on ``torch.jit.trace``.
    """
    if not is_dynamo_loaded():  # then nothing is compiled
        yield
        return
    import torch

    tracer: Any = torch.fx._symbolic_trace
    set_flag = getattr(tracer, "_is_fx_tracing_context", _set_fx_tracing_flag)  # since torch 2.14
    with torch._dynamo.config.patch(error_on_nested_fx_trace=False), set_flag(True):
        yield


@contextmanager
def _set_fx_tracing_flag(value: bool) -> Iterator[None]:
    # Before torch 2.14 this is one flag for all threads.
    import torch

    tracer: Any = torch.fx._symbolic_trace
    before, tracer._is_fx_tracing_flag = tracer._is_fx_tracing_flag, value
    try:
        yield
    finally:
        tracer._is_fx_tracing_flag = before


def record_graph(function: Callable[..., object], inputs: Sequence[Tensor]) -> GraphModule:
    """Return the graph of the operators that a function calls, with fixed sizes.

    ``fx/experimental/proxy_tensor.py``: only a private argument of ``make_fx`` lets the function
    use tensors that are not inputs. ``pre_dispatch`` records operators before torch decomposes
    them, as ``torch.export`` does.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    record: Callable[..., GraphModule] = make_fx(
        function, tracing_mode="fake", pre_dispatch=True, _allow_non_fake_inputs=True
    )
    return record(*inputs)


def program_verifier() -> Any:
    """Return the verifier of programs that still write to tensors, as ``torch.export`` returns.

    ``_export/verifier.py``: the constructor of ``ExportedProgram`` requires one.
    """
    from torch._export.verifier import TrainingIRVerifier

    return TrainingIRVerifier


def name_of_constant_lifter() -> str:
    """Return the dotted name of the function that turns constants into inputs; it is loaded.

    ``_export/passes/lift_constants_pass.py``: it forgets the values, without a public remedy.
    """
    import torch._export.passes.lift_constants_pass  # noqa: F401

    return "torch._export.passes.lift_constants_pass._materialize_and_lift_constants"


def name_of_weight_faker() -> str:
    """Return the dotted name of the function that makes fake tensors of weights; it is loaded.

    ``export/_trace.py``: ``run_decompositions`` does not return these fake tensors.
    """
    import torch.export._trace  # noqa: F401

    return "torch.export._trace._fakify_params_buffers"


def nn_functions() -> Any:
    """Return the module of the functions behind ``torch.nn.functional`` that are written in C.

    ``_C._nn``: some have no public name, such as ``upsample_nearest2d``.
    """
    import torch

    return torch._C._nn


def size_functions() -> ModuleType:
    """Return the module with torch's sympy classes for sizes, such as ``FloorDiv``.

    ``utils/_sympy/functions.py``: files of exported programs name these classes.
    """
    from torch.utils._sympy import functions

    return functions


# Draft export


def draft_report(program: ExportedProgram) -> DraftExportReport:
    """Return the report that ``torch.export.draft_export`` adds to its program.

    ``export/_draft_export.py``: the public function returns only the program, and logs the report.
    """
    report: DraftExportReport = program._report  # type: ignore[attr-defined]  # draft_export adds it
    return report


def draft_failure_types() -> Any:
    """Return the ``Enum`` of the failures in a :func:`draft_report`.

    ``export/_draft_export.py``, as for :func:`draft_report`.
    """
    from torch.export._draft_export import FailureType

    return FailureType


def interned_files() -> dict[int, str]:
    """Return the file names by the numbers that stand for them in a :func:`draft_report`.

    ``_logging/structured.py``: the report's own table has no names that an earlier draft of this
    process stored.
    """
    from torch._logging.structured import INTERN_TABLE

    return {number: name for name, number in INTERN_TABLE.items()}


@contextmanager
def use_real_shapes(report: DraftExportReport) -> Iterator[None]:
    """Inside the block, fake kernels return the shapes that real kernels had in a draft export.

    ``_library/fake_profile.py`` and ``_functorch/config.py``: torch's fake kernels of oneDNN's
    recurrent layers return other shapes than the real ones.
    """
    import torch
    from torch._library.fake_profile import unsafe_generate_fake_kernels

    tolerant = torch._functorch.config.patch(generate_fake_kernels_from_real_mismatches=True)
    with unsafe_generate_fake_kernels(report.op_profiles), tolerant:
        yield


# The default ONNX exporter


def onnx_registry(opset: int | None = None) -> ONNXRegistry:
    """Return the default exporter's translations for an opset; by default for its own opset.

    ``onnx/_internal/exporter/_registration.py``: the exporter's public arguments only add to them.
    """
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    return ONNXRegistry.from_torchlib(*(() if opset is None else (opset,)))


def translated_overloads(registry: ONNXRegistry) -> set[Any]:
    """Return the operators for which a registry has a translation of real numbers.

    ``onnx/_internal/exporter/_decomp.py``, as for :func:`onnx_registry`.
    """
    from torch.onnx._internal.exporter import _decomp

    return set(_decomp.get_onnx_implemented_overloads(registry))


def onnx_decompositions(translated: set[Any]) -> dict[Any, Any]:
    """Return the decompositions of the default exporter, which keeps ``translated`` operators.

    ``onnx/_internal/exporter/_decomp.py``, as for :func:`onnx_registry`.
    """
    from torch.onnx._internal.exporter import _decomp

    table: dict[Any, Any] = _decomp.create_onnx_friendly_decomposition_table(translated)
    return table


def decompose_for_onnx(program: ExportedProgram, registry: ONNXRegistry) -> ExportedProgram:
    """Return a program decomposed as by the default exporter, with the lowerings that are active.

    ``onnx/_internal/exporter/_fx_passes.py``: publicly, only the ONNX file can be had.
    """
    from torch.onnx._internal.exporter import _fx_passes

    return _fx_passes.decompose_with_registry(program, registry)


def name_of_onnx_decomposer() -> str:
    """Return the dotted name of the function in :func:`decompose_for_onnx`; it is loaded.

    ``onnx/_internal/exporter/_fx_passes.py``: the exporter accepts no other decompositions.
    """
    import torch.onnx._internal.exporter._fx_passes  # noqa: F401

    return "torch.onnx._internal.exporter._fx_passes.decompose_with_registry"


def is_translated(node: Node, registry: ONNXRegistry) -> bool:
    """Return True if the default exporter translates a node of a decomposed program.

    ``onnx/_internal/exporter/_dispatching.py``: publicly, an export fails instead.
    """
    from torch.onnx._internal.exporter import _dispatching

    return _dispatching.dispatch(node, registry)[0] is not None


def captured_strictly(program: object) -> bool:
    """Return True if the default exporter had to capture a model in ``torch.export``'s strict mode.

    ``onnx/_internal/exporter/_core.py``: only the printed report says so.
    """
    return getattr(program, "_capture_strategy", None) == "TorchExportStrictStrategy"


# The TorchScript exporter


@functools.cache
def symbolic_registry() -> Any:
    """Return the TorchScript exporter's registry after loading the symbolics of all opsets.

    ``onnx/_internal/torchscript_exporter/registration.py``: the public functions register and
    remove a symbolic, but cannot return or restore one.
    """
    # The exporter loads them at its first run, which would hide entries registered before.
    import importlib
    import pkgutil

    from torch.onnx._internal import torchscript_exporter

    for module in pkgutil.iter_modules(torchscript_exporter.__path__):
        if module.name.startswith("symbolic_opset"):
            importlib.import_module(f"{torchscript_exporter.__name__}.{module.name}")
    return importlib.import_module(f"{torchscript_exporter.__name__}.registration").registry


def symbolics_by_opset(group: Any) -> Any:
    """Return the mapping of opsets to functions in a group of the :func:`symbolic_registry`.

    ``onnx/_internal/torchscript_exporter/registration.py``, as for :func:`symbolic_registry`.
    """
    return group._functions


def remove_symbolics(operator: str) -> None:
    """Remove all symbolics of an operator from the :func:`symbolic_registry`.

    ``onnx/_internal/torchscript_exporter/registration.py``: publicly for one opset at a time only,
    and not those of autograd functions, which the exporter registers itself.
    """
    symbolic_registry()._registry.pop(operator, None)


def oldest_opset() -> int:
    """Return the oldest opset for which the TorchScript exporter has symbolics.

    ``onnx/_constants.py``: there is no public way.
    """
    from torch.onnx import _constants

    return _constants.ONNX_BASE_OPSET


def remove_unused_nodes(graph: Any) -> None:
    """Remove the nodes of a TorchScript graph whose results are not used.

    ``_C``: ``torch.jit`` has it only as a part of other passes.
    """
    import torch

    torch._C._jit_pass_dce(graph)


def name_of_constant_propagation() -> str:
    """Return the dotted name of the pass in which the TorchScript exporter folds constants.

    ``_C``: the exporter does not report what it folded.
    """
    return "torch._C._jit_pass_constant_propagation"


@contextmanager
def no_graph_dump() -> Iterator[None]:
    """Prevent the TorchScript exporter from printing the whole graph when it fails.

    ``_C``: it should print only if verbose, but tests ``is_onnx_log_enabled`` without calling it.
    The output goes to the process's stdout from C++, where ``redirect_stdout`` cannot catch it.
    """
    import torch

    enable, was_enabled = torch._C._jit_set_onnx_log_enabled, torch._C._jit_is_onnx_log_enabled()
    enable(False)
    torch._C._jit_set_onnx_log_enabled = lambda *_: None
    try:
        yield
    finally:
        torch._C._jit_set_onnx_log_enabled = enable
        enable(was_enabled)
