"""Conversion of a recorded graph to an ``ExportedProgram`` without recording it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay import torch_private

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor
    from torch.export import ExportedProgram, ModuleCallEntry
    from torch.export.graph_signature import ExportGraphSignature
    from torch.fx import GraphModule, Node


def build_program(module: GraphModule, inputs: Sequence[Tensor]) -> ExportedProgram:
    """Return the program that ``torch.export.export`` would return for a recorded graph.

    Args:
        module: The graph that ``make_fx`` recorded with ``pre_dispatch``; its attributes become
            parameters and buffers.
        inputs: Example inputs of the graph.
    """
    from torch.export import ExportedProgram

    constants = _lift_attributes(module)
    signature = _build_signature(module, constants)
    return ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=signature,
        state_dict=constants,
        range_constraints={},  # all sizes are fixed
        module_call_graph=[_build_call_entry(signature, inputs)],
        example_inputs=(tuple(inputs), {}),
        verifiers=[torch_private.program_verifier()],  # it accepts writes to tensors
    )


def _lift_attributes(module: GraphModule) -> dict[str, Tensor]:
    """Turn tensor attributes of a graph into its first inputs; return the tensors by name."""
    from torch.nn import Parameter

    graph = module.graph
    first = next(iter(graph.nodes))
    inputs = [each.meta["val"] for each in graph.find_nodes(op="placeholder")]
    mode = torch_private.find_fake_mode(inputs)
    uses: dict[str, list[Node]] = {}
    for node in graph.find_nodes(op="get_attr"):
        uses.setdefault(str(node.target), []).append(node)
    tensors = {name: getattr(module, name) for name in uses}
    # Parameters before buffers, as in the programs of torch.export.
    names = sorted(uses, key=lambda name: not isinstance(tensors[name], Parameter))
    for name in names:
        prefix = "p" if isinstance(tensors[name], Parameter) else "b"
        with graph.inserting_before(first):
            lifted = graph.placeholder(f"{prefix}_{name}")
        lifted.target = lifted.name
        lifted.meta["val"] = mode.from_tensor(tensors[name])
        for node in uses[name]:
            node.replace_all_uses_with(lifted)
            graph.erase_node(node)
        delattr(module, name)
    return {name: tensors[name] for name in names}


def _build_signature(module: GraphModule, constants: dict[str, Tensor]) -> ExportGraphSignature:
    from torch.export.graph_signature import (
        ConstantArgument,
        ExportGraphSignature,
        InputKind,
        InputSpec,
        OutputKind,
        OutputSpec,
        TensorArgument,
    )
    from torch.fx import Node
    from torch.nn import Parameter

    nodes = [TensorArgument(each.name) for each in module.graph.find_nodes(op="placeholder")]
    lifted, inputs = nodes[: len(constants)], nodes[len(constants) :]
    # A graph may return a number, which torch.export stores in the signature.
    results: Any = module.graph.output_node().args[0]
    return ExportGraphSignature(
        input_specs=[
            *(
                InputSpec(InputKind.PARAMETER, node, name)
                if isinstance(tensor, Parameter)
                else InputSpec(InputKind.BUFFER, node, name, persistent=True)
                for node, (name, tensor) in zip(lifted, constants.items(), strict=True)
            ),
            *(InputSpec(InputKind.USER_INPUT, node, None) for node in inputs),
        ],
        output_specs=[
            OutputSpec(
                OutputKind.USER_OUTPUT,
                TensorArgument(each.name) if isinstance(each, Node) else ConstantArgument("", each),
                None,
            )
            for each in results
        ],
    )


def _build_call_entry(signature: ExportGraphSignature, inputs: Sequence[Tensor]) -> ModuleCallEntry:
    from torch.export import ModuleCallEntry, ModuleCallSignature

    return ModuleCallEntry(
        "",
        ModuleCallSignature(
            inputs=[],
            outputs=[],
            in_spec=torch_private.flatten_tree((tuple(inputs), {}))[1],
            out_spec=torch_private.flatten_tree((0,) * len(signature.output_specs))[1],
            forward_arg_names=[str(name) for name in signature.user_inputs],
        ),
    )
