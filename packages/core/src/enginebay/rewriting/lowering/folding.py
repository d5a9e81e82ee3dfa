"""What is the same for every input is computed once, and is a constant of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.rewriting.lowering.context import GraphValues
from enginebay.rewriting.lowering.operators import are_complex, is_among

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from torch.export import ExportedProgram
    from torch.fx import Node

    from enginebay.rewriting.lowering.operators import Known


def fold_constants(program: ExportedProgram, operators: Collection[str]) -> None:
    """Replace what is computed from buffers and constants alone by its value.

    What is computed from a weight stays: the file would have the weight twice. So does what an
    engine fills by itself, such as a tensor of zeros.

    Args:
        program: The program to change.
        operators: The operators that the engine has.
    """
    constants = GraphValues.of(program, weights=False)
    values = {
        node: value
        for node in program.graph.nodes
        if (value := constants.value_at(node)) is not None
    }
    _fold(
        program,
        {
            node: value
            for node, value in values.items()
            if any(each not in values for each in node.users)
            and (node.all_input_nodes or not _is_had(node, operators))
        },
    )


def fold_lacking(program: ExportedProgram, known: Known) -> None:
    """Replace operators that an exporter lacks by their values, where no input is part of them.

    Such as the matrices that a weight is made orthogonal by.

    Args:
        program: The program to change.
        known: Tells which operators the exporter translates.
    """
    import torch

    constants = GraphValues.of(program)
    found: dict[Node, Any] = {}
    for node in program.graph.nodes:
        if not isinstance(node.target, torch._ops.OpOverload) or known(
            node.target, are_complex([each.meta.get("val") for each in node.all_input_nodes], None)
        ):
            continue
        value = constants.value_at(node)
        several = isinstance(value, list | tuple)  # which other nodes take apart
        for each in node.users if several else [node]:
            if isinstance(part := constants.value_at(each), torch.Tensor):
                found[each] = part
    _fold(program, found)


def _fold(program: ExportedProgram, values: Mapping[Node, Any]) -> None:
    """Replace nodes by constants of the program."""
    from torch.export.graph_signature import InputKind

    graph = program.graph
    inputs = program.graph_signature.user_inputs
    first = next(each for each in graph.nodes if each.op != "placeholder" or each.name in inputs)
    # In front of the inputs: an effect, such as an assertion, has a token before all weights.
    specs = program.graph_signature.input_specs
    place = [*(spec.kind for spec in specs), InputKind.USER_INPUT].index(InputKind.USER_INPUT)
    for node, value in values.items():
        if node.op != "call_function" or "val" not in node.meta:
            continue
        with graph.inserting_before(first):
            folded = graph.placeholder(f"folded_{place}")
        folded.target, folded.meta = folded.name, {"val": node.meta["val"]}
        _add_constant(program, place, folded.name, value)
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


def _add_constant(program: ExportedProgram, place: int, name: str, value: Any) -> None:
    from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

    spec = InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(name=name), name)
    program.graph_signature.input_specs.insert(place, spec)
    program.constants[name] = value.detach().contiguous()
