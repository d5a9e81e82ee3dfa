"""Insertion of marks (``enginebay.mark``) into an ONNX graph, which can then be cut at tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import UsageError, nearest
from enginebay.partition.marking import DOMAIN, OPERATOR
from enginebay.tensors import choose_unused_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onnx_ir import Graph, Node, Value

    from enginebay.partition.cuts import Cut


#: The number of tensor names that a message lists from each end of the graph.
_SHOWN_AT_EACH_END = 4


def mark_tensors(graph: Graph, cuts: Iterable[Cut]) -> None:
    """Insert a mark after each tensor that a cut names; the mark gets the name of the tensor.

    Args:
        graph: The graph to change; its subgraphs stay unchanged.
        cuts: Cuts at tensors that are outputs of the graph's nodes.

    Raises:
        UsageError: A tensor does not exist, or is not between two nodes.
    """
    from onnx_ir.convenience import create_value_mapping

    taken = set(create_value_mapping(graph))
    for name, cut in {name: owner for owner in cuts for name in owner.names}.items():
        value = _find_tensor(graph, name, cut)
        mark = _create_mark(value, choose_unused_name(f"{name}_marked", taken))
        taken.add(mark.outputs[0].name or "")
        for node, index in value.uses():  # nodes only: an output of the model is not replaced
            node.replace_input_with(index, mark.outputs[0])
        # Connected only now: otherwise the loop would replace this input by the mark's own output.
        mark.replace_input_with(0, value)
        producer = value.producer()
        assert producer is not None
        graph.insert_after(producer, mark)


def _create_mark(value: Value, output: str) -> Node:
    from onnx_ir import AttrString, Node, Value

    marked = Value(name=output, type=value.type, shape=value.shape)
    name = AttrString("name", value.name or "")
    return Node(DOMAIN, OPERATOR, [None], [name], outputs=[marked])


def _find_tensor(graph: Graph, name: str, cut: Cut) -> Value:
    from onnx_ir.convenience import create_value_mapping

    value = create_value_mapping(graph, include_subgraphs=False).get(name)
    if value is not None:
        reason = _explain_inseparable(value)
    elif name in create_value_mapping(graph):
        reason = "it is in a subgraph (of an If, a Loop or a Scan), which cannot be cut"
    else:
        reason = "no such tensor"
    if value is None or reason:
        names = [other for other in _list_separable(graph) if other != name]
        close = nearest(name, names) if value is None else None
        raise UsageError(
            f"the graph cannot be cut at {cut.quoted(name)}: {reason}",
            hint=f"did you mean '{close}'?"
            if close
            else f"the graph can be cut at {_shorten_names(names)}",
        )
    return value


def _explain_inseparable(value: Value) -> str:
    """Return the reason why a graph cannot be cut at a value; empty if the graph can be cut."""
    if value.is_initializer():  # old files list them among the inputs too
        return "it is an initializer, which is copied into every part"
    if value.producer() is None:
        return "it is an input of the model, with nothing before it"
    if value.uses():
        return ""
    if value.is_graph_output():
        return "it is an output of the model, with nothing after it"
    return "no node reads it"


def _list_separable(graph: Graph) -> list[str]:
    values = (value for node in graph if node.inputs for value in node.outputs)
    return [value.name for value in values if value.name and not _explain_inseparable(value)]


def _shorten_names(names: list[str]) -> str:
    shown = (
        names
        if len(names) <= 2 * _SHOWN_AT_EACH_END
        else [*names[:_SHOWN_AT_EACH_END], "…", *names[-_SHOWN_AT_EACH_END:]]
    )
    return ", ".join(shown) or "no tensor"
