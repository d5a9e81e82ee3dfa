"""Search for the marks (nodes of ``enginebay.mark``) at which an ONNX graph is to be cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import UsageError, did_you_mean
from enginebay.partition.marking import DOMAIN, OPERATOR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_ir import Graph, Node, Value

    from enginebay.partition.cuts import Cut


def find_cuts(graph: Graph, cuts: Sequence[Cut]) -> tuple[list[Cut], dict[Value, int]]:
    """Find the marks (nodes of ``enginebay.mark``) at which a graph is to be cut.

    Args:
        graph: The graph with the marks.
        cuts: The requested cuts; each contains names of marks.

    Returns:
        The cuts inside the model, without those at the model's inputs or outputs; and a dict that
        maps the output of a mark to the index of its cut in the returned list.

    Raises:
        UsageError: No mark has the name of a cut, or two cuts have the same name.
    """
    marks = [(read_mark_name(node), node.outputs[0]) for node in graph if is_mark(node)]
    inside: list[Cut] = []
    cut_numbers: dict[Value, int] = {}
    for number, cut in enumerate(cuts):
        for name in cut.names:
            if any(name in earlier.names for earlier in cuts[:number]):
                raise UsageError(f"the graph cannot be cut at {cut.quoted(name)} twice")
        values = [value for name in cut.names for value in _find_marked_values(name, cut, marks)]
        if cut.may_be_edge and all(map(_is_edge, values)):
            continue
        # Of several names only the last marks count, as in MMDeploy's partition_cfg.
        for value in values if len(cut.names) == 1 else _drop_earlier_marks(values):
            cut_numbers.setdefault(value, len(inside))
        inside.append(cut)
    return inside, cut_numbers


def is_mark(node: Node) -> bool:
    """Return True for a node that ``enginebay.mark`` left in the graph."""
    return node.domain == DOMAIN and node.op_type == OPERATOR


def read_mark_name(node: Node) -> str:
    """Return the name of a mark, which is an attribute of the mark's node."""
    return node.attributes["name"].as_string()


def list_read_values(node: Node) -> list[Value]:
    """List the values that a node reads directly, or in its subgraphs (of an If or a Loop)."""
    from onnx_ir import GraphView
    from onnx_ir.traversal import RecursiveGraphIterator

    nodes = RecursiveGraphIterator(GraphView((), (), nodes=(node,)))
    return [value for inner in nodes for value in inner.inputs if value is not None]


def _find_marked_values(name: str, cut: Cut, marks: Sequence[tuple[str, Value]]) -> list[Value]:
    values = [value for mark, value in marks if name in _list_cut_names(mark)]
    if not values:
        raise _unknown_mark_error(name, cut, [mark for mark, _ in marks])
    return values


def _list_cut_names(mark: str) -> tuple[str, ...]:
    """List the names by which a user can select a mark (node of ``enginebay.mark``) for a cut.

    For the mark ``head:input_0``, these are ``head:input_0``, ``head:input`` and ``head``.
    """
    function, _, tensor = mark.rpartition(":")
    kind, _, index = tensor.partition("_")
    if not function or kind not in ("input", "output") or not index.isdecimal():
        return (mark,)
    names = (mark, f"{function}:{kind}")
    return (*names, function) if kind == "input" else names


def _unknown_mark_error(name: str, cut: Cut, marks: Sequence[str]) -> UsageError:
    names = dict.fromkeys(name for mark in marks for name in _list_cut_names(mark))
    available = f"its marks are {', '.join(dict.fromkeys(marks))}" if marks else "it has no marks"
    return UsageError(
        f"the graph cannot be cut at {cut.quoted(name)}: {available}",
        hint=did_you_mean(name, names) or "mark a tensor in the model: x = enginebay.mark(x, name)",
    )


def _is_edge(mark: Value) -> bool:
    """Return True if no nodes except marks are between a mark and the model's inputs or outputs."""
    source: Value | None = mark
    while source is not None and (node := source.producer()) is not None and is_mark(node):
        source = node.inputs[0]
    return source is None or source.is_graph_input() or _is_end(mark)


def _is_end(value: Value) -> bool:
    readers = [node for node, _ in value.uses()]
    return all(is_mark(node) and _is_end(node.outputs[0]) for node in readers)


def _drop_earlier_marks(marks: Sequence[Value]) -> list[Value]:
    """Return the marks (outputs of mark nodes) on which no other mark in ``marks`` depends."""
    earlier = set().union(*map(_collect_ancestors, marks))
    return [mark for mark in marks if mark not in earlier]


def _collect_ancestors(value: Value) -> set[Value]:
    ancestors: set[Value] = set()
    queue = [value]
    while queue:
        node = queue.pop().producer()
        new = set() if node is None else {*list_read_values(node)} - ancestors
        ancestors |= new
        queue += new
    return ancestors
