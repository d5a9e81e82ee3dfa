"""Removal of complex tensors from a graph, for an engine that has no complex numbers.

Lowerings create every complex tensor by ``complex(real, imag)`` and read it by ``view_as_real``.
This module removes both operators: nodes that read a result of ``view_as_real`` then read the two
real tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.rewriting.lowering.folding import replace_node

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node
    from torch.fx.node import Argument

    from enginebay.torch_private import OpOverload


def replace_complex_views(program: ExportedProgram) -> None:
    """Replace each ``view_as_real`` by the real tensors from which its argument was created."""
    import torch
    from torch.fx.experimental.symbolic_shapes import statically_known_true, sym_eq

    aten: Any = torch.ops.aten
    for node in list(program.graph.nodes):
        if node.target is not aten.view_as_real.default:
            continue
        source: Any = node.args[0]
        if source.target is aten.view_as_complex.default:
            replace_node(program, node, source.args[0])
        if source.target is not aten.complex.default:
            continue
        parts = source.args
        if not statically_known_true(sym_eq(*(part.meta["val"].shape for part in parts))):
            continue  # complex() broadcasts its two tensors; cat, which replaces it, does not
        # A select on the last dimension reads one of both tensors, which need no stack then.
        for user in list(node.users):
            if user.target is aten.select.int and user.args[1] in (-1, parts[0].meta["val"].ndim):
                replace_node(program, user, parts[user.args[2]])
        if node.users:
            replace_node(program, node, _stack_parts(node, parts))
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()


def _stack_parts(node: Node, parts: tuple[Node, ...]) -> Node:
    import torch

    aten: Any = torch.ops.aten

    def add_call(target: OpOverload, *args: Argument) -> Node:
        call = node.graph.call_function(target, args)
        values = torch.fx.map_arg(args, lambda each: each.meta["val"])
        call.meta = {**node.meta, "val": target(*values)}
        return call

    with node.graph.inserting_before(node):
        rows = [add_call(aten.unsqueeze.default, part, -1) for part in parts]
        return add_call(aten.cat.default, rows, -1)
