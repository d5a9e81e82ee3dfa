"""A TorchScript graph run node by node, and what in it depends on the inputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from enginebay_ncnn.lowering.nodes import evaluate
from enginebay_ncnn.lowering.registry import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

#: What tells about a tensor without looking at its numbers.
_SHAPE_ONLY = frozenset(
    f"aten::{name}"
    for name in (
        *("size", "sym_size", "dim", "len", "numel", "is_floating_point", "stride", "device"),
        *("ones_like", "zeros_like", "empty_like", "full_like"),
        *("new_ones", "new_zeros", "new_empty", "new_full"),
    )
) | {"prim::dtype", "prim::device", "prim::layout", "prim::is_cuda"}


#: The kind of a step that gives what it takes.
RENAMED = "prim::Renamed"


@dataclass(frozen=True)
class Step:
    """One node of the graph.

    Attributes:
        node: The node.
        kind: Its operator, such as ``aten::add``.
        inputs: The names of what it takes.
        outputs: The names of what it gives.
    """

    node: Any
    kind: str
    inputs: list[str]
    outputs: list[str]

    @classmethod
    def of(cls, node: Any) -> Step:
        """Read a node."""
        inputs = [value.debugName() for value in node.inputs()]
        outputs = [value.debugName() for value in node.outputs()]
        return cls(node, node.kind(), inputs, outputs)

    @property
    def assigns(self) -> bool:
        """True if it changes its first argument."""
        return (
            self.kind.startswith("aten::")
            and self.kind.endswith("_")
            and not self.kind.endswith("__")
        )


@dataclass
class Script:
    """A frozen graph, and what its values are for one set of inputs.

    Attributes:
        module: The frozen module.
        examples: Its inputs.
        values: Every value by its name, as the module itself computes it.
        live: The names of those that depend on the inputs' numbers.
        initial: Constants that such numbers are written into later, as they were before.
    """

    module: Any
    examples: Sequence[Tensor]
    values: dict[str, Any] = field(default_factory=dict)
    live: set[str] = field(default_factory=set)
    initial: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        graph = self.module.inlined_graph
        own, *inputs = [value.debugName() for value in graph.inputs()]
        self.input_names = inputs
        self.output_names = _output_names(graph)
        self.steps: list[Step] = []
        #: The step that each value comes from.
        self.origin: dict[str, Step] = {}
        self.values[own] = self.module
        for name, tensor in zip(inputs, self.examples, strict=True):
            self.values[name] = tensor.clone()
            self.live.add(name)
        self._run_block(graph)

    def _run_block(self, block: Any) -> None:
        for node in block.nodes():
            step = Step.of(node)
            if list(node.blocks()):
                self._branch(step)
            else:
                self._run(step)

    def _branch(self, step: Step) -> None:
        """Go the way that a fixed condition leads: what it gives has another name from then on."""
        (condition, *_) = step.inputs or [""]
        if step.kind != "prim::If" or condition in self.live:
            raise UnsupportedError(f"control flow ({step.kind}) that depends on the inputs")
        block = list(step.node.blocks())[0 if self.values[condition] else 1]
        self._run_block(block)
        for value, name in zip(block.outputs(), step.outputs, strict=True):
            self._run(Step(step.node, RENAMED, [value.debugName()], [name]))

    def _run(self, step: Step) -> None:
        self.steps.append(step)
        self.origin.update(dict.fromkeys(step.outputs, step))
        if step.assigns and any(name in self.live for name in step.inputs):
            self._enliven(step.inputs[0])
        results = [self.values[name] for name in step.inputs]
        if step.kind != RENAMED:
            results = evaluate(step.node, results)
        self.values.update(zip(step.outputs, results, strict=True))
        if step.kind in _SHAPE_ONLY or not any(name in self.live for name in step.inputs):
            return
        for name, result in zip(step.outputs, results, strict=True):
            if _holds_tensor(result):
                self.live.add(name)
            elif step.kind in ("aten::Int", "aten::Float", "aten::Bool", "aten::item"):
                raise UnsupportedError("a size or a branch that depends on the inputs' numbers")

    def _enliven(self, name: str) -> None:
        """Let a value that is written to depend on the inputs, with all that shares its memory."""
        if name in self.live:
            return
        written = self.values[name]
        for other, value in self.values.items():
            if other in self.live or not shares_memory(value, written):
                continue
            self.live.add(other)
            if self.view_of(other) is None:
                self.initial[other] = value.clone()

    def view_of(self, name: str) -> str | None:
        """The tensor that a value is a piece of; None where it has its own memory."""
        step = self.origin.get(name)
        if step is None or not step.inputs:
            return None
        if step.kind == "prim::ListUnpack":
            step = self.origin[step.inputs[0]]
        found = step.inputs[0]
        return found if shares_memory(self.values[name], self.values[found]) else None


def shares_memory(a: Any, b: Any) -> bool:
    """Return True if two values are tensors of the same memory."""
    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
        return False
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_holds_tensor, value))
    return isinstance(value, torch.Tensor)


def _output_names(graph: Any) -> list[str]:
    names = []
    for value in graph.outputs():
        node = value.node()
        if node.kind() in ("prim::TupleConstruct", "prim::ListConstruct"):
            names += [each.debugName() for each in node.inputs()]
        else:
            names.append(value.debugName())
    return names
