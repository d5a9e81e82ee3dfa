"""TorchScript as a graph of ATen operators: ``torch.export`` reads Python only.

A frozen graph is run node by node, and torch records what depends on the inputs. All else is
computed for good: constants, and sizes, which are those of the example.
"""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any

from enginebay.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor
    from torch.fx import GraphModule

#: A line of Python in the source range of a node: ``…/model.py(12): forward``.
_FRAME = re.compile(r"^(?P<file>.+\.py)\((?P<line>\d+)\)(?:: (?P<function>\S+))?", re.MULTILINE)

#: The frames that are not the model's own code.
_FOREIGN = ("/torch/", "/src/enginebay", "-packages/enginebay")

_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "aten::Int": int,
    "aten::Float": float,
    "aten::Bool": bool,
    "aten::IntImplicit": int,
    "aten::FloatImplicit": float,
    "aten::ScalarImplicit": lambda value: value,
    "aten::item": lambda value: value,
}


def script_graph(module: Any, inputs: Sequence[Tensor]) -> GraphModule:
    """Return what TorchScript computes as a graph of ATen operators.

    Args:
        module: The TorchScript; frozen, or without attributes that are not constants.
        inputs: Its inputs, whose sizes the result is bound to.

    Raises:
        ConversionError: Sizes or branches depend on the inputs' numbers.
    """
    from torch.fx.experimental.proxy_tensor import make_fx

    def run(*tensors: Tensor) -> tuple[Any, ...]:
        return _Run(module).outputs(tensors)

    return make_fx(run, tracing_mode="fake", pre_dispatch=True, _allow_non_fake_inputs=True)(
        *inputs
    )


class _Run:
    """One run of a graph.

    Attributes:
        values: Every value so far by its name.
        live: The names of those that torch records, as they depend on the inputs.
    """

    def __init__(self, module: Any) -> None:
        self.graph = module.inlined_graph
        self.values: dict[str, Any] = {}
        self.live = set(_written(self.graph))
        own, *self._inputs = [value.debugName() for value in self.graph.inputs()]
        self.values[own] = module

    def outputs(self, tensors: Sequence[Tensor]) -> tuple[Any, ...]:
        """Run the graph and return its outputs in one tuple, however they are nested."""
        self.values.update(zip(self._inputs, tensors, strict=True))
        self.live.update(self._inputs)
        self._block(self.graph)
        return tuple(_leaves(self.values[value.debugName()] for value in self.graph.outputs()))

    def _block(self, block: Any) -> None:
        for node in block.nodes():
            if list(node.blocks()):
                self._branch(node)
            else:
                self._node(node)

    def _branch(self, node: Any) -> None:
        """Go the way that a condition leads which is the same for every input."""
        names = [value.debugName() for value in node.inputs()]
        if node.kind() != "prim::If" or names[0] in self.live:
            raise ConversionError(f"control flow ({node.kind()}) that depends on the inputs")
        block = list(node.blocks())[0 if self.values[names[0]] else 1]
        self._block(block)
        for value, output in zip(block.outputs(), node.outputs(), strict=True):
            self._set(
                output.debugName(), self.values[value.debugName()], value.debugName() in self.live
            )

    def _node(self, node: Any) -> None:
        from torch.fx.experimental.proxy_tensor import get_proxy_mode
        from torch.utils._python_dispatch import _disable_current_modes

        names = [value.debugName() for value in node.inputs()]
        outputs = [value.debugName() for value in node.outputs()]
        arguments = [self.values[name] for name in names]
        is_live = any(name in self.live for name in (*names, *outputs))
        if not is_live:
            with _disable_current_modes():
                results = evaluate(node, arguments)
        else:
            mode = get_proxy_mode()
            assert mode is not None
            nodes: Any = mode.tracer.graph
            last = next(iter(reversed(nodes.nodes)))
            results = evaluate(node, arguments)
            _place(node, last)
        for name, result in zip(outputs, results, strict=True):
            self._set(name, result, is_live)

    def _set(self, name: str, value: Any, is_live: bool) -> None:
        """Keep a value; sizes and dtypes of a live tensor are known all the same."""
        import torch

        self.values[name] = value
        holds_tensor = any(isinstance(each, torch.Tensor) for each in _leaves([value]))
        if is_live and holds_tensor:
            self.live.add(name)


def evaluate(node: Any, arguments: list[Any]) -> list[Any]:
    """Compute the outputs of a node."""
    import torch

    kind = node.kind()
    if kind in _NUMBERS:
        return [_NUMBERS[kind](_number(arguments[0]))]
    if kind in _STRUCTURES:
        return _STRUCTURES[kind](node, arguments)
    if kind in _LISTS and isinstance(arguments[0], list):
        return [_LISTS[kind](*arguments)]
    if not kind.startswith("aten::"):
        raise ConversionError(f"TorchScript has the operator {kind}, which no graph of ATen has")
    schema: Any = torch._C.parse_schema(node.schema())
    positional, keywords = [], {}
    for declared, value in zip(schema.arguments, arguments, strict=True):
        if declared.kwarg_only:
            keywords[declared.name] = value
        else:
            positional.append(value)
    if kind in _IMAGE_SIZES and positional[3:] == [None, None]:
        # torch.export takes the overload with one factor a side apart, and this one only where an
        # engine lacks it.
        overload = getattr(torch.ops.aten, kind.removeprefix("aten::")).vec
        return [overload(*positional[:3], None)]
    if kind == "aten::repeat_interleave" and len(positional) > 1 and _is_known(positional[1]):
        return [_repeated(*positional)]
    operators = getattr(torch.ops.aten, _safe(kind.removeprefix("aten::")))
    # By its overload: torch's own choice makes float64 of a choice between two numbers.
    result = getattr(operators, schema.overload_name or "default")(*positional, **keywords)
    return list(result) if len(list(node.outputs())) > 1 else [result]


#: Operators on lists, which torch calls from Python only where it knows what the list holds.
_LISTS: dict[str, Callable[..., Any]] = {
    "aten::add": operator.add,
    "aten::list": list,
    "aten::slice": lambda values, *places: values[slice(*places)],
}

#: Operators whose overload for an image's size torch.export takes apart before all others.
_IMAGE_SIZES = ("aten::upsample_bilinear2d", "aten::upsample_bicubic2d")


def _is_known(value: Any) -> bool:
    """Return True for a tensor whose numbers do not depend on the inputs."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)


def _repeated(x: Tensor, repeats: Tensor, dim: int | None = None) -> Tensor:
    """Repeat as often as known numbers say; by itself torch takes the size for unknown."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    x, dim = (x.flatten(), 0) if dim is None else (x, dim)
    count = x.shape[dim]
    with _disable_current_modes():
        places = torch.repeat_interleave(repeats.expand(count))
    return x.index_select(dim, places)


def _safe(name: str) -> str:
    """The operator that says in its schema that its pieces share memory; ``unsafe_…`` hide it."""
    safe = name.removeprefix("unsafe_")
    return safe if safe in ("chunk", "split", "split_with_sizes") else name


def _constant(node: Any, _: list[Any]) -> list[Any]:
    import torch
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    output = node.output()
    value = None if output.type().kind() == "NoneType" else output.toIValue()
    if isinstance(value, torch.Tensor) and value.dtype is torch.float64 and value.ndim == 0:
        # A number of the model's: as a tensor it would make float64 of what it meets.
        return [value.item()]
    if not isinstance(value, torch.Tensor):
        return [value]
    # A copy is recorded where the model writes to it: every call starts from the same numbers.
    return [value.detach() if get_proxy_mode() is None else value.clone()]


def _size(_: Any, arguments: list[Any]) -> list[Any]:
    shape = list(arguments[0].shape)
    return [shape[arguments[1]] if len(arguments) > 1 else shape]


def _tensor_of(_: Any, arguments: list[Any]) -> list[Any]:
    import torch

    number, dtype = (*arguments, None)[:2]
    found = torch.tensor(number)
    # TorchScript's dtypes are numbers, which the operators take.
    return [found if dtype is None else torch.ops.aten.to.dtype(found, dtype)]


#: What TorchScript has besides operators on tensors: from a node and its inputs to its outputs.
_STRUCTURES: dict[str, Callable[[Any, list[Any]], list[Any]]] = {
    "prim::Constant": _constant,
    "prim::ListConstruct": lambda _, arguments: [list(arguments)],
    "prim::TupleConstruct": lambda _, arguments: [tuple(arguments)],
    "prim::DictConstruct": lambda _, pairs: [dict(zip(pairs[::2], pairs[1::2], strict=True))],
    "prim::ListUnpack": lambda _, arguments: list(arguments[0]),
    "prim::TupleUnpack": lambda _, arguments: list(arguments[0]),
    "prim::TupleIndex": lambda _, arguments: [arguments[0][arguments[1]]],
    "prim::NumToTensor": _tensor_of,
    "prim::tolist": lambda _, arguments: [_known(arguments[0]).tolist()],
    "prim::GetAttr": lambda node, arguments: [getattr(arguments[0], node.s("name"))],
    "prim::dtype": lambda _, arguments: [arguments[0].dtype],
    "prim::device": lambda _, arguments: [arguments[0].device],
    "prim::layout": lambda _, arguments: [arguments[0].layout],
    "prim::is_cuda": lambda _, arguments: [arguments[0].is_cuda],
    "prim::max": lambda _, arguments: [max(*arguments)],
    "prim::min": lambda _, arguments: [min(*arguments)],
    "aten::tensor": _tensor_of,
    "aten::size": _size,
    "aten::dim": lambda _, arguments: [arguments[0].dim()],
    "aten::len": lambda _, arguments: [len(arguments[0])],
    "aten::__getitem__": lambda _, arguments: [operator.getitem(*arguments)],
}


def _number(value: Any) -> Any:
    """The number in a tensor.

    Raises:
        ConversionError: It depends on the inputs.
    """
    import torch

    return _known(value).item() if isinstance(value, torch.Tensor) else value


def _known(tensor: Tensor) -> Tensor:
    """The same tensor, where its numbers do not depend on the inputs; else raise."""
    if not _is_known(tensor):
        raise ConversionError("a size or a branch depends on the inputs' numbers")
    return tensor


def _written(graph: Any) -> Iterator[str]:
    """Yield the names of tensors that are written to, and of those whose memory they share.

    Left out are those that a graph makes of sizes, and writes sizes to: they are known.
    """
    kinds: dict[str, str] = {}
    memory: dict[str, list[str]] = {}  # a tensor, and those whose memory it shares, the owner last
    depending = {value.debugName() for value in graph.inputs()}
    for node in _all_nodes(graph):
        names = [value.debugName() for value in node.inputs()]
        base = _base(node)
        shared = [] if base is None else memory.get(base, [base])
        depends = any(not depending.isdisjoint(memory.get(name, [name])) for name in names)
        for value in node.outputs():
            output = value.debugName()
            kinds[output], memory[output] = node.kind(), [output, *shared]
            if (depends or list(node.blocks())) and "Tensor" in str(value.type()):
                depending.add(output)
        name = node.kind().removeprefix("aten::")
        if node.kind().startswith("aten::") and name.endswith("_") and not name.endswith("__"):
            written = memory.get(names[0], names[:1])
            if depends or not _makes_anew(kinds.get(written[-1], "")):
                depending.update(written)
                yield from written


def _makes_anew(kind: str) -> bool:
    """Return True if a node of this kind makes a tensor; what is stored is the same in each run."""
    return kind.startswith("aten::") or kind == "prim::NumToTensor"


def _base(node: Any) -> str | None:
    """The tensor whose memory a node's outputs share; None where they have their own."""
    import torch

    kind = node.kind()
    if kind.startswith("aten::"):
        schema: Any = torch._C.parse_schema(node.schema())
        shares = schema.arguments and schema.arguments[0].alias_info is not None
        if not shares and "::unsafe_" not in kind:
            return None
    elif kind not in ("prim::ListUnpack", "prim::TupleUnpack"):
        return None
    name: str = next(node.inputs()).debugName()
    return name


def _all_nodes(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _all_nodes(inner)


def _place(node: Any, last: Any) -> None:
    """Tell the recorded nodes behind the last one which line and module they come from."""
    frames = [
        frame
        for frame in _FRAME.finditer(node.sourceRange())
        if not any(part in frame["file"] for part in _FOREIGN)
    ]
    trace = "\n".join(
        f'File "{each["file"]}", line {each["line"]}, in {each["function"] or "forward"}'
        for each in reversed(frames)
    )
    for recorded in _behind(last):
        if trace:
            recorded.meta["stack_trace"] = trace


def _behind(node: Any) -> Iterator[Any]:
    node = node.next
    while node.op != "root":
        yield node
        node = node.next


def _leaves(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, dict):
            yield from _leaves(value.values())
        elif isinstance(value, list | tuple):
            yield from _leaves(value)
        else:
            yield value
