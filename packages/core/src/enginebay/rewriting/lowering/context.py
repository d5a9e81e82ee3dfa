"""The first argument of a lowering: what is known of the values that it is called with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping  # noqa: TC003 - msgspec reads the annotations
from typing import TYPE_CHECKING, Any

from enginebay.rewriting.rewriter import Target

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram
    from torch.fx import Node

    from enginebay.tensors import NumpyArray


class NoConstantError(Exception):
    """A lowering reads the numbers of a tensor that has none; its call has the name to report."""


class LoweringContext(Target, frozen=True, kw_only=True):
    """The target that a graph is lowered for, the operator itself, and facts about values.

    It has the attributes of :class:`~enginebay.rewriting.rewriter.Target`, and one more. While a
    graph is lowered its values have shapes and dtypes and no numbers: ``x.shape`` and ``x.dtype``
    are the model's, and arithmetic on ``x`` adds nodes to the graph. Only constants have numbers.

    Attributes:
        origin_op: What would be without the lowering, called like it, without ``ctx``: core's own
            lowering or torch's decomposition, where the engine or the exporter lacks the operator,
            else the operator.
    """

    origin_op: Callable[..., Any]
    _values: Any = None

    def dtype_of(self, x: Any) -> torch.dtype:
        """Return the dtype of a tensor in the model, or the one that torch gives a number."""
        import torch

        if isinstance(x, torch.Tensor):
            return x.dtype
        # Not torch.tensor(x).dtype, which would add to the graph.
        dtypes = {bool: torch.bool, int: torch.int64, complex: torch.complex64}
        return dtypes.get(type(x), torch.get_default_dtype())

    def sizes_of(self, x: torch.Tensor) -> tuple[int | None, ...]:
        """Return a tensor's sizes; None for one that is open."""
        return tuple(size if isinstance(size, int) else None for size in x.shape)

    def is_constant(self, x: Any) -> bool:
        """Return True if a value is the same for every input of the model.

        Numbers are, and weights, buffers and what is computed from them alone.
        """
        import torch

        return not isinstance(x, torch.Tensor) or self._values.is_constant(x)

    def value_of(self, x: torch.Tensor) -> NumpyArray:
        """Return the numbers of a constant; those of bfloat16 as float32.

        The export ends with a :class:`~enginebay.errors.RewriterError` where it is no constant.
        """
        found = None if not self.is_constant(x) else self._values.value_of(x)
        if found is None:
            raise NoConstantError
        array: NumpyArray = found
        return array


class GraphValues:
    """The constants of a graph: a program's, or the one that is recorded while it is lowered.

    Args:
        inputs: The tensors of the graph's inputs that are weights, buffers or constants.
        named: The same tensors by their names in the program.
    """

    def __init__(self, inputs: dict[Node, torch.Tensor], named: dict[str, torch.Tensor]) -> None:
        self._inputs = inputs
        self._named = named
        self._stand_ins: Mapping[str, torch.Tensor] = {}
        self._known: dict[Node, Any] = {}
        self._root: Any = None

    @classmethod
    def of(cls, program: ExportedProgram, *, weights: bool = True) -> GraphValues:
        """Return the constants of a program, its weights among them or not."""
        from torch.export.graph_signature import InputKind

        kinds = {InputKind.BUFFER, InputKind.CONSTANT_TENSOR}
        kinds |= {InputKind.PARAMETER} if weights else set()
        known = {**program.state_dict, **program.constants}
        signature = program.graph_signature
        changing = {*signature.buffers_to_mutate.values(), *_written(program)}
        nodes = program.graph.find_nodes(op="placeholder")
        inputs, named = {}, {}
        for node, spec in zip(nodes, signature.input_specs, strict=True):
            if spec.kind in kinds and spec.target is not None and spec.target not in changing:
                inputs[node] = named[spec.target] = known[spec.target]
        return cls(inputs, named)

    def follow(self, stand_ins: Mapping[str, torch.Tensor]) -> None:
        """Take what stands for the named tensors while the program is recorded anew.

        The new graph has its inputs in another order than the program.
        """
        self._stand_ins = stand_ins

    def is_constant(self, x: torch.Tensor) -> bool:
        """Return True if no input of the model is among what a tensor was computed from."""
        return self._find(x) is not None

    def value_of(self, x: torch.Tensor) -> NumpyArray | None:
        """Return the numbers of a constant; None for other tensors."""
        import torch
        from torch.utils._python_dispatch import _disable_current_modes

        found = self._find(x)
        if found is None:
            return None
        with _disable_current_modes(), torch.no_grad():
            found = found.float() if found.dtype is torch.bfloat16 else found
            array: NumpyArray = found.detach().cpu().numpy().copy()
        return array

    def result_of(self, operator: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Return what an operator makes of constants; None where one of its tensors is none."""
        import torch
        from torch.utils._python_dispatch import _disable_current_modes
        from torch.utils._pytree import tree_leaves, tree_map

        leaves = tree_leaves((args, kwargs))
        tensors = [each for each in leaves if isinstance(each, torch.Tensor)]
        is_open = any(isinstance(each, torch.SymInt | torch.SymFloat) for each in leaves)
        if is_open or _is_random(operator) or not tensors:
            return None
        if not all(map(self.is_constant, tensors)):
            return None

        def known(value: Any) -> Any:
            return self._find(value) if isinstance(value, torch.Tensor) else value

        args, kwargs = tree_map(known, (args, kwargs))
        with _disable_current_modes(), torch.no_grad():
            return operator(*args, **kwargs)

    def _find(self, x: torch.Tensor) -> torch.Tensor | None:
        import torch
        from torch.fx.experimental.proxy_tensor import get_proxy_mode
        from torch.utils._python_dispatch import _disable_current_modes

        node, mode = node_of(x), get_proxy_mode()
        if node is None or mode is None:
            return x if type(x) is torch.Tensor else None  # a fake tensor has no numbers
        tracer: Any = mode.tracer
        if tracer.root is not self._root:  # a graph that was not met before
            self._root = tracer.root
            for name in self._stand_ins.keys() & self._named.keys():
                if (known := node_of(self._stand_ins[name])) is not None:
                    self._inputs[known] = self._named[name]
        with _disable_current_modes():
            found: torch.Tensor | None = self.value_at(node)
        return found

    def value_at(self, node: Node) -> Any:
        """Return what a node gives for every input of the model; None where they change it."""
        waiting = [] if node in self._known else [node]
        while waiting:  # no recursion: graphs are deeper than Python's stack
            last = waiting[-1]
            inputs = last.all_input_nodes
            unknown = next((each for each in inputs if each not in self._known), None)
            if unknown is None or any(self._known.get(each, each) is None for each in inputs):
                self._known[waiting.pop()] = self._compute(last)
            else:
                waiting.append(unknown)
        return self._known[node]

    def _compute(self, node: Node) -> Any:
        """Run what a node was computed with; None where one of the model's inputs is part of it."""
        import torch
        from torch.fx.node import map_arg

        if node.op == "placeholder":
            return self._inputs.get(node)
        if node.op == "get_attr":
            return getattr(self._root, str(node.target), None)
        inputs = node.all_input_nodes
        is_open = any(self._known.get(each) is None for each in inputs)
        if node.op != "call_function" or is_open or _is_random(node.target):
            return None
        args, kwargs = map_arg((node.args, node.kwargs), self._known.get)
        with torch.no_grad():
            return node.target(*args, **kwargs)  # type: ignore[operator]


def _is_random(operator: Any) -> bool:
    import torch

    return torch.Tag.nondeterministic_seeded in getattr(operator, "tags", ())


def _written(program: ExportedProgram) -> Iterator[str]:
    """Yield the buffers that a graph writes to, whose numbers are others at every call."""
    buffers = program.graph_signature.inputs_to_buffers
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if schema is None or not schema.is_mutable:
            continue
        for written, argument in zip(node.args, schema.arguments, strict=False):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            while getattr(written, "op", "") == "call_function":  # a view of it
                written = written.all_input_nodes[0] if written.all_input_nodes else None
            if (name := getattr(written, "name", "")) in buffers:
                yield buffers[name]


def node_of(x: torch.Tensor) -> Node | None:
    """Return the node of the graph under construction that a tensor stands for; None for none."""
    from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot

    mode = get_proxy_mode()
    if mode is None:
        return None
    found = get_proxy_slot(plain(x), mode.tracer, None)
    return None if found is None else found.proxy.node


def constant(values: Any, device: torch.device) -> torch.Tensor:
    """Return numbers as a tensor; ``torch.tensor`` writes to what it makes, which no graph may."""
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        numbers = torch.as_tensor(values, device=device)
    found: torch.Tensor = torch.ops.aten.lift_fresh_copy.default(numbers)
    return found


def plain(value: Any) -> Any:
    """Return the tensor that a graph records, where torch has wrapped it to follow its changes."""
    import torch
    from torch._subclasses.functional_tensor import FunctionalTensor

    if not isinstance(value, FunctionalTensor):
        return value
    sync: Any = torch._sync  # type: ignore[attr-defined]  # private, as of torch 2.13
    sync(value)
    return torch._from_functional_tensor(value.elem)
