"""Complex numbers, taken out of a graph for an engine that has none.

Lowerings have made of every complex tensor ``complex(real, imag)``, and look at it through
``view_as_real`` alone. What is looked at is one of the parts, or both next to each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.rewriting.lowering.folding import replace

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node


def complex_as_pairs(program: ExportedProgram) -> None:
    """Replace views of complex tensors by the parts that these were made of."""
    import torch
    from torch.fx.experimental.symbolic_shapes import statically_known_true, sym_eq

    aten: Any = torch.ops.aten
    for node in list(program.graph.nodes):
        if node.target is not aten.view_as_real.default:
            continue
        made: Any = node.args[0]
        if made.target is aten.view_as_complex.default:
            replace(program, node, made.args[0])
        if made.target is not aten.complex.default:
            continue
        parts = made.args
        if not statically_known_true(sym_eq(*(part.meta["val"].shape for part in parts))):
            continue  # torch broadcasts them
        for user in list(node.users):
            if user.target is aten.select.int and user.args[1] in (-1, parts[0].meta["val"].ndim):
                replace(program, user, parts[user.args[2]])
        if node.users:
            replace(program, node, _stacked(node, parts))
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()


def _stacked(node: Node, parts: tuple[Node, ...]) -> Node:
    """Both parts along a last dimension."""
    import torch

    aten: Any = torch.ops.aten

    def call(target: Any, *args: Any) -> Node:
        made = node.graph.call_function(target, args)
        values = torch.fx.map_arg(args, lambda each: each.meta["val"])
        made.meta = {**node.meta, "val": target(*values)}
        return made

    with node.graph.inserting_before(node):
        rows = [call(aten.unsqueeze.default, part, -1) for part in parts]
        return call(aten.cat.default, rows, -1)
