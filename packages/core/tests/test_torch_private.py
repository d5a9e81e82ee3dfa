"""torch's private names: an example of each function, and that no other file of core names one."""

from __future__ import annotations

import ast
import gc
import importlib
import inspect
import re
import sys
from collections import deque
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import enginebay
import enginebay_rewriters
from enginebay import torch_private
from enginebay.ir import quiet
from enginebay.rewriting.dotted_names import find_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

aten: Any = torch.ops.aten
jit: Any = torch.jit
SOURCES = [Path(package.__file__).parent for package in (enginebay, enginebay_rewriters)]
FUNCTIONS = [
    name
    for name, value in vars(torch_private).items()
    if inspect.isfunction(inspect.unwrap(value))
    and value.__module__ == torch_private.__name__
    and not name.startswith("_")
]

# torch's own warnings: of torch.jit (their category depends on the version) and of pytrees
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit"),
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec:FutureWarning"),
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_torch_has_the_names_of(name: str) -> None:
    example: Callable[[], object] | None = globals().get(f"example_{name}")
    assert example is not None, f"write example_{name}(), which calls it"
    example()


def test_every_example_has_its_function() -> None:
    examples = {name.removeprefix("example_") for name in globals() if name.startswith("example_")}
    assert examples == {*FUNCTIONS}


def example_import_torch() -> None:
    torch_private.import_torch()
    assert "torch._dynamo" in sys.modules
    assert gc.isenabled()


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * x

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("Mul", x, x)


@cache
def program() -> Any:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).eval()
    return torch.export.export(model, (torch.ones(1, 2),))


@cache
def draft() -> Any:
    class Branch(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if x.sum() > 0 else x

    with quiet():  # it logs its report, and leaves its log file to the garbage collector
        exported = torch.export.draft_export(Branch(), (torch.ones(2),))
        gc.collect()
    return exported


def fake(*shape: int) -> torch.Tensor:
    value: torch.Tensor = next(iter(program().graph.nodes)).meta["val"]
    return value.new_empty(shape)


def call_of(graph: Any, name: str) -> Any:
    return next(node for node in graph.nodes if name in str(node.target))


def functionalized(check: Callable[[torch.Tensor], None]) -> None:
    """Call a check with a functional tensor, as decompositions of composite operators receive."""
    calls = []

    def replacement(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        calls.append(type(x).__name__)
        check(x)
        return x @ weight.T + bias

    table: Any = {aten.linear.default: replacement}
    program().run_decompositions(table)
    assert set(calls) == {"FunctionalTensor"}


def example_is_operator() -> None:
    assert torch_private.is_operator(aten.max.dim)
    assert not torch_private.is_operator(aten.max)
    assert not torch_private.is_operator(torch.cond)


def example_is_from_ops() -> None:
    assert torch_private.is_from_ops(aten.max)
    assert torch_private.is_from_ops(aten.max.dim)
    assert not torch_private.is_from_ops(torch.max)


def example_schema_of() -> None:
    schema: Any = torch_private.schema_of(aten.max.dim)
    assert (schema.name, schema.overload_name) == ("aten::max", "dim")
    assert [argument.name for argument in schema.arguments] == ["self", "dim", "keepdim"]
    assert len(schema.returns) == 2
    assert torch_private.schema_of(aten.relu_.default).is_mutable
    assert torch_private.schema_of(torch.max) is None


def example_all_operator_names() -> None:
    assert {"aten::relu", "aten::max.dim"} <= set(torch_private.all_operator_names())


def example_decompositions_without_prims() -> None:
    table = torch_private.decompositions_without_prims()
    assert aten.gelu_backward.default in table
    assert not any(each.__module__.startswith("torch._refs") for each in table.values())


def example_destroy_library() -> None:
    library: Any = torch.library.Library("enginebay_example", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch's
    library.define("f(Tensor x) -> Tensor")
    assert "enginebay_example::f" in torch_private.all_operator_names()
    torch_private.destroy_library(library)
    assert "enginebay_example::f" not in torch_private.all_operator_names()


def example_tree_leaves() -> None:
    assert torch_private.tree_leaves({"a": [1, (2,)], "b": 3}) == [1, 2, 3]


def example_tree_map() -> None:
    assert torch_private.tree_map(str, {"a": [1, (2,)]}) == {"a": ["1", ("2",)]}


def example_flatten_tree() -> None:
    leaves, spec = torch_private.flatten_tree(((1, 2), {}))
    assert leaves == [1, 2]
    assert spec == program().module_call_graph[0].signature.in_spec or spec.num_leaves == 2


def example_flatten_node() -> None:
    flat = torch_private.flatten_node(deque([1, (2,)]))
    assert flat is not None
    assert flat[0] == [1, (2,)]
    assert torch_private.unflatten_tree([3, 4], flat[1]) == deque([3, 4])
    assert torch_private.flatten_node("text") is None


def example_unflatten_tree() -> None:
    _, spec = torch_private.flatten_tree({"a": [1, (2,)]})
    assert torch_private.unflatten_tree([3, 4], spec) == {"a": [3, (4,)]}


def example_dispatch_mode_class() -> None:
    base: Any = torch_private.dispatch_mode_class()
    seen = []

    class Recorder(base):  # type: ignore[misc]  # its base is found at run time
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Recorder():
        torch.ones(2).relu()
    assert aten.relu.default in seen


def example_without_modes() -> None:
    base: Any = torch_private.dispatch_mode_class()

    class Refuser(base):  # type: ignore[misc]  # as above
        def __torch_dispatch__(self, *_: object) -> None:
            raise AssertionError

    with Refuser(), torch_private.without_modes():
        assert torch.ones(2).sum() == 2


def example_function_mode_stack() -> None:
    depth, at, push, pop = torch_private.function_mode_stack()
    mode = torch.overrides.BaseTorchFunctionMode()
    before = depth()
    push(mode)
    assert depth() == before + 1
    assert at(before) is mode
    assert pop() is mode


def example_torch_function_check() -> None:
    is_enabled = torch_private.torch_function_check()
    assert is_enabled()
    with torch._C.DisableTorchFunction():
        assert not is_enabled()


def example_disabled_torch_function() -> None:
    handler = torch_private.disabled_torch_function()
    assert nn.Parameter.__torch_function__ is handler


def example_register_script_builtin() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    torch_private.register_script_builtin(double, "aten::neg")

    def call(x: torch.Tensor) -> torch.Tensor:
        return double(x)

    assert "aten::neg" in str(jit.script(call).graph)


def example_modules_with_override_checks() -> None:
    modules = torch_private.modules_with_override_checks()
    assert torch.nn.functional in modules
    for module in modules:
        assert [name for name in vars(module) if name.startswith("has_torch_function")], module


def example_is_tensor_attribute() -> None:
    assert torch_private.is_tensor_attribute(torch.Tensor.add)
    assert torch_private.is_tensor_attribute(torch.Tensor.T)
    assert not torch_private.is_tensor_attribute(torch.Tensor.norm)
    assert not torch_private.is_tensor_attribute("".join)


def example_exporters_own_functions() -> None:
    importlib.import_module("torch.onnx")
    for name in torch_private.exporters_own_functions():
        assert callable(find_loaded(name)), name


def find_loaded(name: str) -> object:
    """Return what a dotted name refers to, after importing its module."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        break
    return find_name(name).value


def example_is_fake() -> None:
    assert torch_private.is_fake(fake(2))
    assert not torch_private.is_fake(torch.ones(2))


def example_find_fake_mode() -> None:
    mode = torch_private.find_fake_mode([fake(2)])
    assert torch_private.is_fake(mode.from_tensor(torch.ones(2)))
    assert torch_private.find_fake_mode([torch.ones(2)]) is None


def example_data_dependence_error() -> None:
    with pytest.raises(torch_private.data_dependence_error()):
        torch.equal(fake(2), fake(2))


def example_unwrap_functional() -> None:
    def check(x: torch.Tensor) -> None:
        inner = torch_private.unwrap_functional(x)
        assert type(inner) is not type(x)
        assert inner.shape == x.shape

    functionalized(check)
    assert torch_private.unwrap_functional(3) == 3


def example_count_writes() -> None:
    def check(x: torch.Tensor) -> None:
        copy = x.clone()
        before = torch_private.count_writes(copy)
        copy.add_(1)
        assert torch_private.count_writes(copy) == before + 1

    functionalized(check)
    assert torch_private.count_writes(torch.ones(2)) == 0


def example_version_of() -> None:
    tensor = torch.ones(2)
    before = torch_private.version_of(tensor)
    tensor.add_(1)
    assert torch_private.version_of(tensor) == before + 1


def example_children_of() -> None:
    model = nn.Sequential(nn.ReLU())
    assert torch_private.children_of(model) == dict(model.named_children())


def example_set_children() -> None:
    model = nn.Sequential(nn.ReLU())
    torch_private.set_children(model, {"0": nn.Tanh()})
    assert isinstance(model[0], nn.Tanh)


def example_parameters_of() -> None:
    model = nn.Linear(2, 2)
    assert torch_private.parameters_of(model) == dict(model.named_parameters())


def example_buffers_of() -> None:
    model = nn.BatchNorm1d(2)
    assert torch_private.buffers_of(model) == dict(model.named_buffers())


def example_share_tensors() -> None:
    model, owner = nn.Identity(), nn.BatchNorm1d(2)
    owner.register_buffer("scratch", torch.ones(2), persistent=False)
    torch_private.share_tensors(model, owner)
    owner.weight = nn.Parameter(torch.zeros(2))
    assert model.weight is owner.weight
    assert model.state_dict().keys() == owner.state_dict().keys()


def example_state_attributes() -> None:
    attributes = torch_private.state_attributes()
    assert all(isinstance(vars(nn.ReLU())[name], dict) for name in attributes)


def example_hook_attributes() -> None:
    def hook(*_: object) -> None:
        return None

    model = nn.ReLU()
    model.register_forward_hook(hook, with_kwargs=True, always_call=True)
    model.register_forward_pre_hook(hook, with_kwargs=True)
    for name in torch_private.hook_attributes():
        assert len(getattr(model, name)) == 1, name
    known = {name for name in vars(model) if re.match("_forward_(pre_)?hooks", name)}
    assert {*torch_private.hook_attributes()} == known


def example_script_method_names() -> None:
    assert torch_private.script_method_names(jit.script(nn.ReLU())) == ["forward"]


def example_script_attribute_names() -> None:
    names = torch_private.script_attribute_names(jit.script(nn.Sequential(nn.Linear(2, 2))))
    assert {"weight", "bias"} <= names


def example_batch_norm_class() -> None:
    base = torch_private.batch_norm_class()
    assert issubclass(nn.BatchNorm2d, base)
    assert issubclass(nn.SyncBatchNorm, base)


def example_unwrap_compiled_module() -> None:
    model = nn.ReLU()
    assert torch_private.unwrap_compiled_module(torch.compile(model)) is model
    assert torch_private.unwrap_compiled_module(model) is model


def example_unwrap_compiled_function() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x

    assert torch_private.unwrap_compiled_function(torch.compile(function)) is function
    assert torch_private.unwrap_compiled_function(function) is function


def example_argument_structure_of() -> None:
    structure = torch_private.argument_structure_of(program().module())
    assert (structure.num_leaves, structure.num_children) == (1, 2)
    assert structure.unflatten([1]) == ((1,), {})
    assert torch_private.argument_structure_of(nn.ReLU()) is None


def example_is_dynamo_loaded() -> None:
    importlib.import_module("torch._dynamo")
    assert torch_private.is_dynamo_loaded()


def example_forget_compiled() -> None:
    counts = []
    compiled = torch.compile(torch.neg, backend=lambda graph, _: counts.append(1) or graph)
    for _ in range(2):
        compiled(torch.ones(2))
        torch_private.forget_compiled()
    assert len(counts) == 2


def example_tracing_of_compiled_functions() -> None:
    compiled = torch.compile(torch.neg)

    def call(x: torch.Tensor) -> Any:
        return compiled(x)

    with torch_private.tracing_of_compiled_functions():
        traced = jit.trace(call, torch.ones(2))
    assert "aten::neg" in str(traced.graph)


def example_record_graph() -> None:
    weight = torch.ones(2)
    graph = torch_private.record_graph(lambda x: torch.dropout(x * weight, 0.5, False), [weight])
    assert call_of(graph.graph, "dropout") is not None


def example_program_verifier() -> None:
    from torch.export import ExportedProgram

    known = program()
    copy = ExportedProgram(
        root=known.graph_module,
        graph=known.graph,
        graph_signature=known.graph_signature,
        state_dict=known.state_dict,
        range_constraints=known.range_constraints,
        module_call_graph=known.module_call_graph,
        example_inputs=known.example_inputs,
        verifiers=[torch_private.program_verifier()],
    )
    assert copy.module()(torch.ones(1, 2)).shape == (1, 2)


def example_name_of_constant_lifter() -> None:
    assert callable(find_name(torch_private.name_of_constant_lifter()).value)


def example_name_of_weight_faker() -> None:
    assert callable(find_name(torch_private.name_of_weight_faker()).value)


def example_nn_functions() -> None:
    enlarged = torch_private.nn_functions().upsample_nearest2d(torch.ones(1, 1, 1, 1), (2, 2))
    assert enlarged.sum() == 4


def example_size_functions() -> None:
    assert torch_private.size_functions().FloorDiv(7, 2) == 3


def example_draft_report() -> None:
    report = torch_private.draft_report(draft())
    assert report.failures
    assert report.op_profiles is not None


def example_draft_failure_types() -> None:
    kinds = torch_private.draft_failure_types()
    found = [each.failure_type for each in torch_private.draft_report(draft()).failures]
    assert kinds.DATA_DEPENDENT_ERROR in found
    assert kinds.MISSING_FAKE_KERNEL is not kinds.GUARD_ADDED


def example_interned_files() -> None:
    failure = torch_private.draft_report(draft()).failures[0]
    frame = failure.data["user_stack"][-1]
    assert torch_private.interned_files()[frame["filename"]] == __file__


def example_use_real_shapes() -> None:
    with torch_private.use_real_shapes(torch_private.draft_report(draft())):
        assert program().run_decompositions() is not None


def example_onnx_registry() -> None:
    registry = torch_private.onnx_registry(18)
    assert [each.is_complex for each in registry.get_decomps(aten.relu.default)] == [False]
    assert torch_private.onnx_registry().opset_version == registry.opset_version


def example_translated_overloads() -> None:
    assert aten.relu.default in torch_private.translated_overloads(torch_private.onnx_registry())


def example_onnx_decompositions() -> None:
    table = torch_private.onnx_decompositions(set())
    assert aten.relu.default not in torch_private.onnx_decompositions({aten.relu.default})
    assert callable(table[aten.addcmul.default])


def example_decompose_for_onnx() -> None:
    registry = torch_private.onnx_registry()
    assert call_of(torch_private.decompose_for_onnx(program(), registry).graph, "relu") is not None


def example_name_of_onnx_decomposer() -> None:
    assert callable(find_name(torch_private.name_of_onnx_decomposer()).value)


def example_is_translated() -> None:
    registry = torch_private.onnx_registry()
    assert torch_private.is_translated(call_of(program().graph, "relu"), registry)
    unknown = torch.export.export(Unknown(), (torch.ones(2),))
    assert not torch_private.is_translated(call_of(unknown.graph, "_foreach"), registry)


class Unknown(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return torch._foreach_neg([x])[0]


def example_captured_strictly() -> None:
    model = nn.ReLU().eval()
    written = torch.onnx.export(model, (torch.ones(2),), dynamo=True, verbose=False)
    assert hasattr(written, "_capture_strategy")
    assert not torch_private.captured_strictly(written)


def example_symbolic_registry() -> None:
    group = torch_private.symbolic_registry().get_function_group("aten::relu")
    assert group.get_min_supported() <= 18
    assert torch_private.symbolic_registry().get_function_group("aten::enginebay") is None


def example_symbolics_by_opset() -> None:
    group = torch_private.symbolic_registry().get_function_group("aten::relu")
    functions = torch_private.symbolics_by_opset(group)
    assert all(callable(functions[opset]) for opset in functions)
    assert not any(functions.overridden(opset) for opset in functions)


def example_remove_symbolics() -> None:
    registry = torch_private.symbolic_registry()
    registry.register("enginebay::example", 18, Square.symbolic, custom=True)
    assert registry.get_function_group("enginebay::example") is not None
    torch_private.remove_symbolics("enginebay::example")
    assert registry.get_function_group("enginebay::example") is None


def example_oldest_opset() -> None:
    assert 7 <= torch_private.oldest_opset() <= 9


def example_remove_unused_nodes() -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        torch.tanh(x)
        return torch.neg(x)

    graph = jit.script(call).graph
    torch_private.remove_unused_nodes(graph)
    assert [node.kind() for node in graph.nodes()] == ["aten::neg"]


def example_name_of_constant_propagation() -> None:
    assert callable(find_name(torch_private.name_of_constant_propagation()).value)


def example_no_graph_dump() -> None:
    with torch_private.no_graph_dump():
        assert torch._C._jit_is_onnx_log_enabled() is False
        torch._C._jit_set_onnx_log_enabled(True)
        assert torch._C._jit_is_onnx_log_enabled() is False


# What no other file of core may name

#: A dotted name of torch with a private part, but not an operator such as torch.ops.aten._softmax.
PRIVATE_NAME = re.compile(r"torch(?!\.ops\.)(\.\w+)*\._[a-zA-Z]\w*(\.\w+)*")
#: Attributes of Python's own classes, or of ours, that one of torch's classes has as well.
NOT_TORCH = {"_asdict", "_fields", "_make", "_replace"}


def test_no_other_file_names_a_private_name_of_torch() -> None:
    files = [path for source in SOURCES for path in source.rglob("*.py")]
    assert len(files) > 200
    found = [
        f"{path}:{use}"
        for path in files
        if path.name != "torch_private.py"
        for use in sorted(find_private_names(path.read_text()))
    ]
    assert not found, "\n".join(("give them functions in torch_private.py:", *found))


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import torch._dynamo", ["1: torch._dynamo"]),
        ("from torch._ops import OpOverload", ["1: torch._ops.OpOverload"]),
        ("from torch import _C", ["1: torch._C"]),
        ("from torch.jit._builtins import x", ["1: torch.jit._builtins.x"]),
        ("import torch\nx = torch._C.gelu", ["2: torch._C", "2: torch._C.gelu"]),
        ("from torch import fx\nfx._x.y", ["2: torch.fx._x", "2: torch.fx._x.y"]),
        ("import torch.nn as net\nnet._x", ["2: torch.nn._x"]),
        ('import_module("torch._dynamo")', ["1: torch._dynamo"]),
        ('getattr(node.target, "_schema", None)', ["1: _schema"]),
        ("node.target._schema.name", ["1: _schema"]),
        ("vars(module)['_modules']", ["1: _modules"]),
        ("tensor._version", ["1: _version"]),
        ("import torch\ntorch.ops.aten._softmax.default", []),
        ('"""It calls torch._dynamo."""', []),
        ('@rewriters.function("torch._grouped_mm")\ndef f(): ...', []),
        ("self._schema = self._modules", []),
        ("self._schema: int = 1\nother._schema", []),
        ("from enginebay._x import y\ny._z", []),
    ],
)
def test_the_search_finds(code: str, found: list[str]) -> None:
    assert sorted(find_private_names(code)) == found


def find_private_names(code: str) -> set[str]:
    """Return the line and the name of each use of a private name of torch."""
    tree = ast.parse(code)
    names = dict(find_torch_imports(tree))  # name in the file → the dotted name that it stands for
    attributes = private_attributes() - set(find_own_attributes(tree))
    rewritten = set(find_rewritten_names(tree))
    return {
        f"{node.lineno}: {name}"  # type: ignore[attr-defined]  # statements and expressions
        for node in ast.walk(tree)
        for name in names_in(node, names)
        if node not in rewritten and (PRIVATE_NAME.fullmatch(name) or name in attributes)
    }


def find_rewritten_names(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the names in declarations of rewriters: functions and operators that models call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                yield from decorator.args if isinstance(decorator, ast.Call) else ()


def find_torch_imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                if each.name.partition(".")[0] == "torch":
                    yield (each.asname, each.name) if each.asname else ("torch", "torch")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"):
            for each in node.names:
                yield each.asname or each.name, f"{node.module}.{each.name}"


def find_own_attributes(tree: ast.AST) -> Iterator[str]:
    """Yield the attributes that the file's own classes set."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_self(node):
            yield node.attr


def is_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def names_in(node: ast.AST, names: dict[str, str]) -> Iterator[str]:
    """Yield the names that a node has by itself, not in the nodes inside it."""
    match node:
        case ast.Import():
            yield from (each.name for each in node.names)
        case ast.ImportFrom():
            yield from (f"{node.module}.{each.name}" for each in node.names)
        case ast.Constant(value=str(text)):
            yield text
        case ast.Attribute(value=value, attr=attribute):
            if not is_self(node):
                yield attribute
            parts = [attribute]
            while isinstance(value, ast.Attribute):
                parts.insert(0, value.attr)
                value = value.value
            if isinstance(value, ast.Name) and value.id in names:
                yield ".".join((names[value.id], *parts))


@cache
def private_attributes() -> frozenset[str]:
    """Return the private attributes of those objects of torch that core handles."""
    library: Any = torch.library.Library("enginebay_example", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch's
    registry = torch_private.symbolic_registry()
    objects = (
        *(nn.Linear(1, 1), torch.ones(1), jit.script(nn.ReLU()), aten.relu, aten.relu.default),
        *(program(), program().module(), program().graph, library),
        *(torch.overrides.TorchFunctionMode, torch_private.dispatch_mode_class()),
        *(registry, registry.get_function_group("aten::relu"), torch_private.onnx_registry()),
    )
    names = {name for each in objects for name in dir(each) if re.match("_[a-z]", name)}
    return frozenset(names - NOT_TORCH)
