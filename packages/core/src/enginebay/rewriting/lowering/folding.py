"""What is the same for every input is computed once, and is a constant of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.rewriting.lowering.operators import is_among

if TYPE_CHECKING:
    from collections.abc import Collection

    from torch.export import ExportedProgram
    from torch.fx import Node


def fold_constants(program: ExportedProgram, operators: Collection[str]) -> None:
    """Replace what is computed from buffers and constants alone by its value.

    What is computed from a weight stays: the file would have the weight twice. So does what an
    engine fills by itself, such as a tensor of zeros.

    Args:
        program: The program to change.
        operators: The operators that the engine has.
    """
    from torch.export.graph_signature import InputKind

    graph = program.graph
    values = _values(program)
    inputs = program.graph_signature.user_inputs
    first = next(each for each in graph.nodes if each.op != "placeholder" or each.name in inputs)
    # In front of the inputs: an effect, such as an assertion, has a token before all weights.
    specs = program.graph_signature.input_specs
    place = [*(spec.kind for spec in specs), InputKind.USER_INPUT].index(InputKind.USER_INPUT)
    for node in list(values):
        needed = any(each not in values for each in node.users)
        is_filled = not node.all_input_nodes and _is_had(node, operators)
        if node.op != "call_function" or not needed or is_filled:
            continue
        with graph.inserting_before(first):
            folded = graph.placeholder(f"folded_{place}")
        folded.target, folded.meta = folded.name, {"val": node.meta["val"]}
        _add_constant(program, place, folded.name, values[node])
        replace(program, node, folded)
        place += 1
    graph.eliminate_dead_code()
    program.graph_module.recompile()


def replace(program: ExportedProgram, node: Node, other: Node) -> None:
    """Let all that uses a node use another, the program's outputs too."""
    from torch.export.graph_signature import TensorArgument

    node.replace_all_uses_with(other)
    for spec in program.graph_signature.output_specs:
        if spec.arg.name == node.name:
            spec.arg = TensorArgument(name=other.name)


def _is_had(node: Node, operators: Collection[str]) -> bool:
    import torch

    return isinstance(node.target, torch._ops.OpOverload) and is_among(node.target, operators)


def _values(program: ExportedProgram) -> dict[Node, Any]:
    """The nodes without an input of the model or a weight among their inputs, and their values."""
    import torch
    from torch.export.graph_signature import InputKind
    from torch.fx.node import map_arg

    signature = program.graph_signature
    specs = {spec.arg.name: spec for spec in signature.input_specs}
    known = {**program.state_dict, **program.constants}
    changing = set(signature.buffers_to_mutate.values())
    found: dict[Node, Any] = {}
    for node in program.graph.nodes:
        if node.op == "placeholder":
            spec = specs[node.name]
            is_fixed = spec.kind in (InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
            if is_fixed and spec.target not in changing:
                found[node] = known[spec.target]
        elif node.op == "call_function" and all(each in found for each in node.all_input_nodes):
            tags = getattr(node.target, "tags", ())
            if torch.Tag.nondeterministic_seeded not in tags and "val" in node.meta:
                args, kwargs = map_arg((node.args, node.kwargs), found.__getitem__)
                with torch.no_grad():
                    found[node] = node.target(*args, **kwargs)
    return found


def _add_constant(program: ExportedProgram, place: int, name: str, value: Any) -> None:
    from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

    spec = InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(name=name), name)
    program.graph_signature.input_specs.insert(place, spec)
    program.constants[name] = value.detach().contiguous()
