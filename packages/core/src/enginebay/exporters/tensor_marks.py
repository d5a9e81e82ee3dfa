"""Marks at the tensors of an ONNX file, which has no others: where they are, it can be cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import UsageError, nearest
from enginebay.models import unused
from enginebay.rewriting import DOMAIN, OPERATOR

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onnx_ir import Graph, Node, Value

    from enginebay.rewriting import Cut


#: Names of tensors that a message shows from either end of a graph.
_SHOWN = 4


def mark_tensors(graph: Graph, cuts: Iterable[Cut]) -> None:
    """Put a mark behind each tensor that is named, under the tensor's name.

    Args:
        graph: The graph, without its bodies; changed.
        cuts: They name tensors that nodes of the graph compute.

    Raises:
        UsageError: There is no such tensor, or nothing lies before or behind it.
    """
    from onnx_ir.convenience import create_value_mapping

    taken = set(create_value_mapping(graph))
    for name, cut in {name: each for each in cuts for name in each.names}.items():
        value = _find(graph, name, cut)
        mark = _mark(value, unused(f"{name}_marked", taken))
        taken.add(mark.outputs[0].name or "")
        for node, place in value.uses():  # an output of the model stays what it is
            node.replace_input_with(place, mark.outputs[0])
        mark.replace_input_with(0, value)
        producer = value.producer()
        assert producer is not None
        graph.insert_after(producer, mark)


def _mark(value: Value, output: str) -> Node:
    from onnx_ir import AttrString, Node, Value

    marked = Value(name=output, type=value.type, shape=value.shape)
    name = AttrString("name", value.name or "")
    return Node(DOMAIN, OPERATOR, [None], [name], outputs=[marked])


def _find(graph: Graph, name: str, cut: Cut) -> Value:
    """Return the tensor.

    Raises:
        UsageError: There is none, or the graph does not come apart there.
    """
    from onnx_ir.convenience import create_value_mapping

    value = create_value_mapping(graph, include_subgraphs=False).get(name)
    if value is not None:
        reason = _inseparable(value)
    elif name in create_value_mapping(graph):
        reason = "it lies in a body (of an If, a Loop or a Scan), which stays whole"
    else:
        reason = "it has no such tensor"
    if value is None or reason:
        names = [each for each in _separable(graph) if each != name]
        close = nearest(name, names) if value is None else None
        raise UsageError(
            f"the graph cannot be cut at {cut.quoted(name)}: {reason}",
            hint=f"did you mean '{close}'?" if close else f"its tensors are {_some(names)}",
        )
    return value


def _inseparable(value: Value) -> str:
    """Return the reason why a graph cannot be cut at a value; empty if it can."""
    if value.is_initializer():  # old files list them among the inputs too
        return "it is an initializer, which every part has for itself"
    if value.producer() is None:
        return "it is an input of the model, and nothing lies before it"
    if value.uses():
        return ""
    if value.is_graph_output():
        return "it is an output of the model, and nothing lies behind it"
    return "no node reads it"


def _separable(graph: Graph) -> list[str]:
    """List the tensors that a graph may be cut at."""
    values = (value for node in graph if node.inputs for value in node.outputs)
    return [value.name for value in values if value.name and not _inseparable(value)]


def _some(names: list[str]) -> str:
    """Join names, without those in the middle where there are many."""
    shown = names if len(names) <= 2 * _SHOWN else [*names[:_SHOWN], "…", *names[-_SHOWN:]]
    return ", ".join(shown) or "none that it can be cut at"
