"""Constants of a captured graph: the values that are the same for every input of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay import torch_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import torch
    from torch.export import ExportedProgram
    from torch.fx import Node

    from enginebay.rewriting.lowering.operators import Args, Kwargs
    from enginebay.tensors import NumpyArray


class GraphValues:
    """Finds the constants of a program in its graph, and in the graph of its lowered version.

    Args:
        inputs: Graph input that is a weight, a buffer or a constant → its tensor.
        named: Name of the weight, buffer or constant in the program → its tensor.
    """

    def __init__(self, inputs: dict[Node, torch.Tensor], named: dict[str, torch.Tensor]) -> None:
        self._inputs = inputs
        self._named = named
        self._fake_tensors: Mapping[str, torch.Tensor] = {}
        self._known: dict[Node, Any] = {}
        self._root: Any = None

    @classmethod
    def from_program(cls, program: ExportedProgram, *, weights: bool = True) -> GraphValues:
        """Return the constants of a program; its weights are among them if ``weights`` is True."""
        from torch.export.graph_signature import InputKind

        kinds = {InputKind.BUFFER, InputKind.CONSTANT_TENSOR}
        kinds |= {InputKind.PARAMETER} if weights else set()
        known = {**program.state_dict, **program.constants}
        signature = program.graph_signature
        changing = {*signature.buffers_to_mutate.values(), *_find_written_buffers(program)}
        nodes = program.graph.find_nodes(op="placeholder")
        inputs, named = {}, {}
        for node, spec in zip(nodes, signature.input_specs, strict=True):
            if spec.kind in kinds and spec.target is not None and spec.target not in changing:
                inputs[node] = named[spec.target] = known[spec.target]
        return cls(inputs, named)

    def set_fake_tensors(self, fake_tensors: Mapping[str, torch.Tensor]) -> None:
        """Store the fake tensors (by name) that stand for constants while a new graph is recorded.

        A constant's input in the new graph is looked up by the fake tensor, since the inputs of the
        new graph may be in another order than those of the program.
        """
        self._fake_tensors = fake_tensors

    def is_constant(self, x: torch.Tensor) -> bool:
        """Return True if a tensor does not depend on any input of the model."""
        return self._find_value(x) is not None

    def value_of(self, x: torch.Tensor) -> NumpyArray | None:
        """Return the values of a constant as an array; None for other tensors."""
        import torch

        value = self._find_value(x)
        if value is None:
            return None
        with torch_private.without_modes(), torch.no_grad():
            value = value.float() if value.dtype is torch.bfloat16 else value  # not in NumPy
            # A copy: numpy() returns a view of the model's own weight.
            array: NumpyArray = value.detach().cpu().numpy().copy()
        return array

    def compute(self, operator: Callable[..., object], args: Args, kwargs: Kwargs) -> object:
        """Return the result of an operator whose tensor arguments are all constants.

        The result is None if an argument is not constant, if no argument is a tensor, or if the
        operator is random.
        """
        import torch

        leaves = torch_private.tree_leaves((args, kwargs))
        tensors = [each for each in leaves if isinstance(each, torch.Tensor)]
        is_dynamic = any(isinstance(each, torch.SymInt | torch.SymFloat) for each in leaves)
        if is_dynamic or _is_random(operator) or not tensors:
            return None
        if not all(map(self.is_constant, tensors)):
            return None

        def replace_by_value(leaf: object) -> object:
            return self._find_value(leaf) if isinstance(leaf, torch.Tensor) else leaf

        args, kwargs = torch_private.tree_map(replace_by_value, (args, kwargs))
        with torch_private.without_modes(), torch.no_grad():
            return operator(*args, **kwargs)

    def _find_value(self, x: torch.Tensor) -> torch.Tensor | None:
        import torch
        from torch.fx.experimental.proxy_tensor import get_proxy_mode

        node, mode = find_node(x), get_proxy_mode()
        if node is None or mode is None:
            return x if type(x) is torch.Tensor else None  # a fake tensor has no data
        tracer: Any = mode.tracer
        if tracer.root is not self._root:  # a new graph
            self._root = tracer.root
            for name in self._fake_tensors.keys() & self._named.keys():
                if (known := find_node(self._fake_tensors[name])) is not None:
                    self._inputs[known] = self._named[name]
        with torch_private.without_modes():
            value: torch.Tensor | None = self.value_at(node)
        return value

    def value_at(self, node: Node) -> Any:
        """Return a node's value; None if the value depends on the inputs of the model."""
        pending = [] if node in self._known else [node]
        while pending:  # not recursive: graphs are deeper than Python's stack
            last = pending[-1]
            inputs = last.all_input_nodes
            unknown = next((each for each in inputs if each not in self._known), None)
            if unknown is None or any(self._known.get(each, each) is None for each in inputs):
                self._known[pending.pop()] = self._compute_node(last)
            else:
                pending.append(unknown)
        return self._known[node]

    def _compute_node(self, node: Node) -> object:
        """Return the value of a node; None if this value depends on the model's inputs."""
        import torch
        from torch.fx.node import map_arg

        if node.op == "placeholder":
            return self._inputs.get(node)
        if node.op == "get_attr":
            return getattr(self._root, str(node.target), None)
        inputs = node.all_input_nodes
        is_unknown = any(self._known.get(each) is None for each in inputs)
        if node.op != "call_function" or is_unknown or _is_random(node.target):
            return None
        args, kwargs = map_arg((node.args, node.kwargs), self._known.get)
        with torch.no_grad():
            return node.target(*args, **kwargs)  # type: ignore[operator]


def _is_random(operator: object) -> bool:
    import torch

    return torch.Tag.nondeterministic_seeded in getattr(operator, "tags", ())


def _find_written_buffers(program: ExportedProgram) -> Iterator[str]:
    """Yield the names of the buffers that a graph writes to, whose values may therefore change."""
    buffers = program.graph_signature.inputs_to_buffers
    for node in program.graph.nodes:
        schema = torch_private.schema_of(node.target)
        if schema is None or not schema.is_mutable:
            continue
        for target, argument in zip(node.args, schema.arguments, strict=False):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            base = target
            while getattr(base, "op", "") == "call_function":  # a view of another tensor
                base = base.all_input_nodes[0] if base.all_input_nodes else None
            if (name := getattr(base, "name", "")) in buffers:
                yield buffers[name]


def find_node(x: torch.Tensor) -> Node | None:
    """Return a tensor's node in the graph being recorded; None for a tensor without a node."""
    from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot

    mode = get_proxy_mode()
    if mode is None:
        return None
    slot = get_proxy_slot(torch_private.unwrap_functional(x), mode.tracer, None)
    return None if slot is None else slot.proxy.node


def constant(values: object, device: torch.device) -> torch.Tensor:
    """Add numbers, an array or a tensor as a constant to the recorded graph; return its tensor."""
    import torch

    # torch.tensor() would be recorded as a write to an empty tensor, which graphs cannot hold.
    with torch_private.without_modes():
        tensor = torch.as_tensor(values, device=device)
    lifted: torch.Tensor = torch.ops.aten.lift_fresh_copy.default(tensor)
    return lifted
