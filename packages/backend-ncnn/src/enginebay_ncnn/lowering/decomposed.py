"""Operators that have no lowering of their own, as torch itself puts them together from others."""

from __future__ import annotations

import operator
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from enginebay_ncnn.lowering.registry import UnsupportedError, constant, is_constant
from enginebay_ncnn.lowering.torch_internals import untraced

if TYPE_CHECKING:
    from collections.abc import Callable

    from enginebay_ncnn.lowering.calls import Call


@cache
def _table() -> Any:
    from torch.export import default_decompositions

    # A copy as a plain mapping: the one that torch gives fills itself while it is looked at.
    table: Any = default_decompositions()
    return dict(table.items())


def parts_of(call: Call) -> torch.fx.GraphModule | None:
    """Return torch's decomposition of an operator; None if torch does not decompose it."""
    leaves, form = pytree.tree_flatten((call.originals, call.keywords))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    overload = getattr(getattr(torch.ops.aten, call.name), call.overload or "default")

    def run(*tensors: torch.Tensor) -> Any:
        filled = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            filled[place] = tensor
        positional, keywords = pytree.tree_unflatten(filled, form)
        return overload(*positional, **keywords)

    with untraced():
        graph = make_fx(run, decomposition_table=_table())(*(leaves[place] for place in places))
    kinds = [node.target for node in graph.graph.nodes if node.op == "call_function"]
    return None if overload in kinds or not kinds else graph


def replay(graph: torch.fx.GraphModule, call: Call, apply: Callable[[Call], Any]) -> Any:
    """Run the parts with their lowerings.

    Args:
        graph: The parts.
        call: The operator that they are of.
        apply: Lowers one call.
    """
    is_tensor = lambda leaf: isinstance(leaf, torch.Tensor)  # noqa: E731
    originals = iter(filter(is_tensor, pytree.tree_leaves((call.originals, call.keywords))))
    lowered = iter(filter(is_tensor, pytree.tree_leaves((call.arguments, call.keywords))))
    real: dict[torch.fx.Node, Any] = {}
    values: dict[torch.fx.Node, Any] = {}
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            real[node], values[node] = next(originals), next(lowered)
        elif node.op == "get_attr":
            real[node] = getattr(graph, node.target)
            values[node] = constant(real[node].clone())
        elif node.op == "output":
            return torch.fx.map_arg(node.args[0], values.__getitem__)
        else:
            real[node], values[node] = _step(node, real, values, apply)
    return None


def _step(
    node: torch.fx.Node,
    real: dict[torch.fx.Node, Any],
    values: dict[torch.fx.Node, Any],
    apply: Callable[[Call], Any],
) -> tuple[Any, Any]:
    """Compute one part of a decomposition, as in the model and lowered."""
    from enginebay_ncnn.lowering.calls import Call

    positional, keywords = torch.fx.map_arg((node.args, node.kwargs), real.__getitem__)
    arguments: Any = torch.fx.map_arg(node.args, values.__getitem__)
    target: Any = node.target
    with untraced():
        found = target(*positional, **keywords)
    if target is operator.getitem:
        return found, target(*arguments)
    if all(map(is_constant, pytree.tree_leaves(arguments))):
        return found, pytree.tree_map_only(torch.Tensor, constant, found)
    space, _, name = target.name().partition("::")
    name, _, overload = name.partition(".")
    if space == "prims" and name == "convert_element_type":
        name, keywords = "_to_copy", {}
    elif space != "aten":
        raise UnsupportedError(f"the operator {space}::{name}")
    lowered = [list(each) if isinstance(each, tuple) else each for each in arguments]
    name = name.rstrip("_")  # what changes its argument gives it as well
    return found, apply(Call(name, overload, lowered, dict(keywords), list(positional), found))
