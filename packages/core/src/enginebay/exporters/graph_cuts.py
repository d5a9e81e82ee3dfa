"""The marks of an ONNX graph that it is cut at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import UsageError, nearest
from enginebay.rewriting import DOMAIN, OPERATOR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_ir import Graph, Node, Value

    from enginebay.rewriting import Cut


def find_cuts(graph: Graph, cuts: Sequence[Cut]) -> tuple[list[Cut], dict[Value, int]]:
    """Find the marks that a graph is cut at.

    Returns:
        The cuts without those at the model's edges, and the number of its cut for the output of
        each mark.

    Raises:
        UsageError: No mark has a name, or two cuts have the same.
    """
    marks = [(mark_name(node), node.outputs[0]) for node in graph if is_mark(node)]
    inside: list[Cut] = []
    found: dict[Value, int] = {}
    for number, cut in enumerate(cuts):
        for name in cut.names:
            if any(name in earlier.names for earlier in cuts[:number]):
                raise UsageError(f"the graph is to be cut at {cut.quoted(name)} twice")
        here = [value for name in cut.names for value in _marked(name, cut, marks)]
        if cut.may_be_edge and all(map(_is_edge, here)):
            continue
        for value in here if len(cut.names) == 1 else _last(here):
            found.setdefault(value, len(inside))
        inside.append(cut)
    return inside, found


def is_mark(node: Node) -> bool:
    """Return True for the node of a mark."""
    return node.domain == DOMAIN and node.op_type == OPERATOR


def mark_name(node: Node) -> str:
    """Return the name of a mark's node."""
    return node.attributes["name"].as_string()


def reads(node: Node) -> list[Value]:
    """List the values that a node and the nodes in its bodies (of an If, of a Loop) read."""
    from onnx_ir import GraphView
    from onnx_ir.traversal import RecursiveGraphIterator

    nodes = RecursiveGraphIterator(GraphView((), (), nodes=(node,)))
    return [value for each in nodes for value in each.inputs if value is not None]


def _marked(name: str, cut: Cut, marks: Sequence[tuple[str, Value]]) -> list[Value]:
    found = [value for mark, value in marks if name in _names_for(mark)]
    if not found:
        raise _unknown_mark(name, cut, [mark for mark, _ in marks])
    return found


def _names_for(mark: str) -> tuple[str, ...]:
    """List the names for a mark: ``head:input_0`` is also found as ``head:input`` and ``head``."""
    function, _, place = mark.rpartition(":")
    side, _, number = place.partition("_")
    if not function or side not in ("input", "output") or not number.isdecimal():
        return (mark,)
    names = (mark, f"{function}:{side}")
    return (*names, function) if side == "input" else names


def _unknown_mark(name: str, cut: Cut, marks: Sequence[str]) -> UsageError:
    close = nearest(name, dict.fromkeys(each for mark in marks for each in _names_for(mark)))
    there = f"its marks are {', '.join(dict.fromkeys(marks))}" if marks else "it has no marks"
    return UsageError(
        f"the graph cannot be cut at {cut.quoted(name)}: {there}",
        hint=f"did you mean '{close}'?"
        if close
        else "mark a tensor in the model: x = enginebay.mark(x, name)",
    )


def _is_edge(mark: Value) -> bool:
    """Return True for a mark with nothing but marks before it, or behind it."""
    source: Value | None = mark
    while source is not None and (node := source.producer()) is not None and is_mark(node):
        source = node.inputs[0]
    return source is None or source.is_graph_input() or _is_end(mark)


def _is_end(value: Value) -> bool:
    readers = [node for node, _ in value.uses()]
    return all(is_mark(node) and _is_end(node.outputs[0]) for node in readers)


def _last(marks: Sequence[Value]) -> list[Value]:
    """Leave out the marks that lie before another one: a cut there would tear both apart."""
    before = set().union(*map(_ancestors, marks))
    return [mark for mark in marks if mark not in before]


def _ancestors(value: Value) -> set[Value]:
    """Collect the values that a value is computed from."""
    found: set[Value] = set()
    waiting = [value]
    while waiting:
        node = waiting.pop().producer()
        new = [] if node is None else [each for each in reads(node) if each not in found]
        found.update(new)
        waiting += new
    return found
