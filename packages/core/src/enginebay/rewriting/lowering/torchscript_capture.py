"""Capture of TorchScript as a graph of ATen operators; ``torch.export`` accepts only Python code.

A frozen graph is executed node by node. Nodes that depend on the inputs are recorded. Other nodes
are computed once and become constants. All sizes become constants too: the graph
is valid only for the sizes of the example inputs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from enginebay import torch_private
from enginebay.errors import ConversionError
from enginebay.rewriting.lowering.torchscript_nodes import evaluate_node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torch import Block, Graph, Node as ScriptNode, Tensor
    from torch.fx import GraphModule, Node
    from torch.jit import ScriptModule

#: A line of Python in the source range of a node: ``…/model.py(12): forward``.
_FRAME = re.compile(r"^(?P<file>.+\.py)\((?P<line>\d+)\)(?:: (?P<function>\S+))?", re.MULTILINE)

#: Parts of the paths of files that are not the model's own code.
_FOREIGN_PATHS = ("/torch/", "/src/enginebay", "-packages/enginebay")


def script_graph(module: ScriptModule, inputs: Sequence[Tensor]) -> GraphModule:
    """Convert TorchScript to a graph of ATen operators.

    Args:
        module: The TorchScript module; frozen, or with constant attributes only.
        inputs: Example inputs of the module; the graph is valid only for their sizes.

    Raises:
        ConversionError: Sizes or branches depend on the inputs' values.
    """

    def run(*tensors: Tensor) -> tuple[object, ...]:
        return _GraphRun(module).run_graph(tensors)

    return torch_private.record_graph(run, inputs)


class _GraphRun:
    """One execution of a TorchScript graph.

    Attributes:
        values: Name in the TorchScript graph → the computed value.
        recorded: The names of the tensors that depend on the inputs, or that the graph writes to.
            Nodes that read or return one of them are recorded.
    """

    def __init__(self, module: ScriptModule) -> None:
        self.graph = module.inlined_graph
        self.values: dict[str, Any] = {}
        self.recorded = set(_find_written_tensors(self.graph))
        module_name, *self._inputs = [value.debugName() for value in self.graph.inputs()]
        self.values[module_name] = module

    def run_graph(self, tensors: Sequence[Tensor]) -> tuple[object, ...]:
        """Execute the graph and return its outputs as one flat tuple."""
        self.values.update(zip(self._inputs, tensors, strict=True))
        self.recorded.update(self._inputs)
        self._run_block(self.graph)
        return tuple(_flatten(self.values[value.debugName()] for value in self.graph.outputs()))

    def _run_block(self, block: Graph | Block) -> None:
        for node in block.nodes():
            if list(node.blocks()):
                self._run_constant_branch(node)
            else:
                self._run_node(node)

    def _run_constant_branch(self, node: ScriptNode) -> None:
        names = [value.debugName() for value in node.inputs()]
        if node.kind() != "prim::If" or names[0] in self.recorded:
            raise ConversionError(
                f"the model has control flow ({node.kind()}) that depends on its inputs"
            )
        block = list(node.blocks())[0 if self.values[names[0]] else 1]
        self._run_block(block)
        for value, output in zip(block.outputs(), node.outputs(), strict=True):
            name = value.debugName()
            self._set_value(output.debugName(), self.values[name], name in self.recorded)

    def _run_node(self, node: ScriptNode) -> None:
        from torch.fx.experimental.proxy_tensor import get_proxy_mode

        names = [value.debugName() for value in node.inputs()]
        outputs = [value.debugName() for value in node.outputs()]
        arguments = [self.values[name] for name in names]
        is_recorded = any(name in self.recorded for name in (*names, *outputs))
        if not is_recorded:
            with torch_private.without_modes():
                results = evaluate_node(node, arguments)
        else:
            mode = get_proxy_mode()
            assert mode is not None
            graph: Any = mode.tracer.graph
            last = next(iter(reversed(graph.nodes)))
            results = evaluate_node(node, arguments)
            _copy_source_lines(node, last)
        for name, result in zip(outputs, results, strict=True):
            self._set_value(name, result, is_recorded)

    def _set_value(self, name: str, value: object, is_recorded: bool) -> None:
        import torch

        self.values[name] = value
        # Other values of a recorded tensor, its sizes and its dtype, are the same for every input.
        has_tensor = any(isinstance(each, torch.Tensor) for each in _flatten([value]))
        if is_recorded and has_tensor:
            self.recorded.add(name)


def _find_written_tensors(graph: Graph) -> Iterator[str]:
    """Yield the names of tensors that the graph writes to, or that share memory with such a tensor.

    A tensor that is created from sizes, and to which only sizes are written, is constant: its name
    is not yielded.
    """
    kinds: dict[str, str] = {}
    memory: dict[str, list[str]] = {}  # a tensor and those that share its memory, the owner last
    dependent = {value.debugName() for value in graph.inputs()}
    for node in _all_nodes(graph):
        names = [value.debugName() for value in node.inputs()]
        base = _find_memory_owner(node)
        shared = [] if base is None else memory.get(base, [base])
        depends = any(not dependent.isdisjoint(memory.get(name, [name])) for name in names)
        for value in node.outputs():
            output = value.debugName()
            kinds[output], memory[output] = node.kind(), [output, *shared]
            if (depends or list(node.blocks())) and "Tensor" in str(value.type()):
                dependent.add(output)
        name = node.kind().removeprefix("aten::")
        # aten::add_ writes to its first argument, aten::__getitem__ does not.
        if node.kind().startswith("aten::") and name.endswith("_") and not name.endswith("__"):
            written = memory.get(names[0], names[:1])
            if depends or not _creates_tensor(kinds.get(written[-1], "")):
                dependent.update(written)
                yield from written


def _creates_tensor(kind: str) -> bool:
    """Return True if nodes of this kind create a new tensor in every run of the graph."""
    return kind.startswith("aten::") or kind == "prim::NumToTensor"


def _find_memory_owner(node: ScriptNode) -> str | None:
    """Return the name of the input whose memory a node's outputs share; None if there is none."""
    import torch

    kind = node.kind()
    if kind.startswith("aten::"):
        schema: Any = torch.parse_schema(node.schema())
        shares = schema.arguments and schema.arguments[0].alias_info is not None
        # Operators such as unsafe_split share memory, but their schema does not declare it.
        if not shares and "::unsafe_" not in kind:
            return None
    elif kind not in ("prim::ListUnpack", "prim::TupleUnpack"):
        return None
    name: str = next(node.inputs()).debugName()
    return name


def _all_nodes(block: Graph | Block) -> Iterator[ScriptNode]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _all_nodes(inner)


def _copy_source_lines(node: Any, last: Node) -> None:
    """Copy the source lines of a TorchScript node to the nodes recorded after ``last``."""
    frames = [
        frame
        for frame in _FRAME.finditer(node.sourceRange())
        if not any(part in frame["file"] for part in _FOREIGN_PATHS)
    ]
    trace = "\n".join(
        f'File "{frame["file"]}", line {frame["line"]}, in {frame["function"] or "forward"}'
        for frame in reversed(frames)
    )
    for recorded in _nodes_after(last):
        if trace:
            recorded.meta["stack_trace"] = trace


def _nodes_after(node: Node) -> Iterator[Node]:
    node = node.next
    while node.op != "root":
        yield node
        node = node.next


def _flatten(values: Iterable[object]) -> Iterator[object]:
    for value in values:
        if isinstance(value, dict):
            yield from _flatten(value.values())
        elif isinstance(value, list | tuple):
            yield from _flatten(value)
        else:
            yield value
