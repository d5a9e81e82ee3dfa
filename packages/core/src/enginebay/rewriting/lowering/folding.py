"""Constant folding: nodes whose value is the same for every input become constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay import torch_private
from enginebay.rewriting.lowering.graph_values import GraphValues
from enginebay.rewriting.lowering.operators import are_complex, is_listed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from torch import Tensor
    from torch.export import ExportedProgram
    from torch.fx import Node

    from enginebay.rewriting.lowering.operators import Known


def fold_constants(program: ExportedProgram, operators: Collection[str]) -> None:
    """Turn each node that depends only on buffers and constants into a constant.

    Args:
        program: The program to change.
        operators: The operators that the engine supports. A node without inputs stays in the graph
            if its operator is among them.
    """
    # Not nodes computed from weights: if the weight is used elsewhere too, it would be stored
    # twice. Nor those without inputs, such as a tensor of zeros, if the engine can fill them.
    constants = GraphValues.from_program(program, weights=False)
    values = {
        node: value
        for node in program.graph.nodes
        if (value := constants.value_at(node)) is not None
    }
    _fold_nodes(
        program,
        {
            node: value
            for node, value in values.items()
            if any(each not in values for each in node.users)
            and (node.all_input_nodes or not _has_operator(node, operators))
        },
    )


def fold_lacking(program: ExportedProgram, known: Known) -> None:
    """Turn each node that the exporter cannot translate into a constant, if its value is constant.

    An example is the matrix inverse from which an orthogonal weight is computed.

    Args:
        program: The program to change.
        known: A function that returns True for an operator that the exporter translates.
    """
    import torch

    constants = GraphValues.from_program(program)
    constant_nodes: dict[Node, Tensor] = {}
    for node in program.graph.nodes:
        if not torch_private.is_operator(node.target) or known(
            node.target, are_complex([each.meta.get("val") for each in node.all_input_nodes], None)
        ):
            continue
        value = constants.value_at(node)
        has_many = isinstance(value, list | tuple)  # the users are then getitem nodes
        for each in node.users if has_many else [node]:
            if isinstance(tensor := constants.value_at(each), torch.Tensor):
                constant_nodes[each] = tensor
    _fold_nodes(program, constant_nodes)


def _fold_nodes(program: ExportedProgram, values: Mapping[Node, Tensor]) -> None:
    from torch.export.graph_signature import InputKind

    graph = program.graph
    inputs = program.graph_signature.user_inputs
    first = next(each for each in graph.nodes if each.op != "placeholder" or each.name in inputs)
    # Constants come directly before the user's inputs, and not first of all: a program with
    # effects, such as assertions, starts with a token.
    specs = program.graph_signature.input_specs
    index = [*(spec.kind for spec in specs), InputKind.USER_INPUT].index(InputKind.USER_INPUT)
    for node, value in values.items():
        if node.op != "call_function" or "val" not in node.meta:
            continue
        with graph.inserting_before(first):
            folded = graph.placeholder(f"folded_{index}")
        folded.target, folded.meta = folded.name, {"val": node.meta["val"]}
        _add_constant(program, index, folded.name, value)
        replace_node(program, node, folded)
        index += 1
    graph.eliminate_dead_code()
    program.graph_module.recompile()


def replace_node(program: ExportedProgram, node: Node, other: Node) -> None:
    """Use ``other`` instead of ``node`` in all nodes that read it and in the program's outputs."""
    from torch.export.graph_signature import TensorArgument

    node.replace_all_uses_with(other)
    for spec in program.graph_signature.output_specs:
        if spec.arg.name == node.name:
            spec.arg = TensorArgument(name=other.name)


def _has_operator(node: Node, operators: Collection[str]) -> bool:
    return torch_private.is_operator(node.target) and is_listed(node.target, operators)


def _add_constant(program: ExportedProgram, index: int, name: str, value: Tensor) -> None:
    from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

    spec = InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(name=name), name)
    program.graph_signature.input_specs.insert(index, spec)
    program.constants[name] = value.detach().contiguous()
