"""An ONNX graph with marks: which part each node belongs to, and the graph without its marks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import UsageError, nearest
from enginebay.models import unused
from enginebay.rewriting import DOMAIN, OPERATOR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from onnx import GraphProto, ModelProto, NodeProto

#: They read nothing, and yet are no constants: each must stay one node.
_RANDOM = {"RandomNormal", "RandomUniform"}


class Levels:
    """How many cuts lie before each value and each node of a graph.

    Args:
        graph: The graph, with its marks.
        cuts: For each output of a mark that is cut at, the number of its cut.

    Attributes:
        of: The level of each value; None for a constant, which every part may have for itself.
        nodes: The level of each node, in the graph's order.

    Raises:
        UsageError: A mark lies behind its own cut, or behind a later one.
    """

    def __init__(self, graph: GraphProto, cuts: Mapping[str, int]) -> None:
        weights = initializer_names(graph)
        self.of: dict[str, int | None] = {
            value.name: 0 for value in graph.input if value.name not in weights
        }
        self.nodes: list[int | None] = []
        for node in graph.node:
            level = self._level(node)
            if level is not None and is_mark(node) and node.output[0] in cuts:
                level = _beyond(node, level, cuts[node.output[0]])
            self.nodes.append(level)
            self.of.update(dict.fromkeys(node.output, level))

    def _level(self, node: NodeProto) -> int | None:
        found = [self.of.get(name) for name in reads(node)]
        known = [level for level in found if level is not None]
        return max(known, default=0 if node.op_type in _RANDOM else None)


def _beyond(node: NodeProto, level: int, cut: int) -> int:
    if level > cut:
        raise UsageError(
            f"the graph cannot be cut at '{mark_name(node)}': this mark lies behind its own cut, "
            "or behind one that comes later in the list",
            hint="name the cuts in the order of the model, and give each place its own name",
        )
    return cut + 1


def is_mark(node: NodeProto) -> bool:
    """Whether a node stands for a mark."""
    return bool(node.domain == DOMAIN and node.op_type == OPERATOR)


def mark_name(node: NodeProto) -> str:
    """The name that a mark was given."""
    return next(str(each.s.decode()) for each in node.attribute if each.name == "name")


def find_cuts(graph: GraphProto, cuts: Sequence[str]) -> dict[str, int]:
    """For each output of a mark that is cut at, the number of its cut.

    Raises:
        UsageError: No mark has the name, or a name is there twice.
    """
    marks = [(mark_name(node), node.output[0]) for node in graph.node if is_mark(node)]
    found: dict[str, int] = {}
    for number, cut in enumerate(cuts):
        if cut in cuts[:number]:
            raise UsageError(f"the graph is to be cut at '{cut}' twice")
        here = [output for name, output in marks if cut in _answers_to(name)]
        if not here:
            raise _unknown(cut, [name for name, _ in marks])
        for output in here:
            found.setdefault(output, number)
    return found


def _answers_to(name: str) -> tuple[str, ...]:
    """What a mark may be called: ``head:input_0`` is also one of ``head:input`` and of ``head``."""
    function, _, place = name.rpartition(":")
    side, _, number = place.partition("_")
    if not function or side not in ("input", "output") or not number.isdecimal():
        return (name,)
    alone = (name, f"{function}:{side}")
    return (*alone, function) if side == "input" else alone


def _unknown(cut: str, names: Sequence[str]) -> UsageError:
    known = list(dict.fromkeys(each for name in names for each in _answers_to(name)))
    close = nearest(cut, known)
    there = f"its marks are {', '.join(dict.fromkeys(names))}" if names else "it has no marks"
    return UsageError(
        f"the graph cannot be cut at '{cut}': {there}",
        hint=f"did you mean '{close}'?"
        if close
        else "mark a tensor in the model: x = enginebay.mark(x, name)",
    )


def remove_marks(model: ModelProto, cuts: Mapping[str, int]) -> None:
    """Take every mark out of a model; a tensor that is cut at gets the name of its mark."""
    graph = model.graph
    for inner in (*_subgraphs(graph), *model.functions):
        for node in inner.node:
            _make_plain(node)  # nothing can be cut in there
    kept = {value.name for value in (*graph.input, *graph.output)} | initializer_names(graph)
    produced = {name for node in graph.node for name in node.output} - kept
    taken = kept | produced
    sources: dict[str, str] = {}
    names: dict[str, str] = {}
    for node in graph.node:
        if not is_mark(node):
            continue
        source, output = sources.get(node.input[0], node.input[0]), node.output[0]
        if output in cuts and source in produced and source not in names:
            names[source] = unused(mark_name(node), taken)
            taken.add(names[source])
        if output in kept:
            _make_plain(node)  # an output of the model keeps its name
        else:
            sources[output] = source
    renamed = {name: names.get(source, source) for name, source in sources.items()}
    _rename(graph, names | renamed)
    rest = [node for node in graph.node if not is_mark(node)]
    infos = [info for info in graph.value_info if info.name not in sources]
    for field, values in ((graph.node, rest), (graph.value_info, infos)):
        del field[:]
        field.extend(values)
    for info in graph.value_info:
        info.name = names.get(info.name, info.name)
    imports = [each for each in model.opset_import if each.domain != DOMAIN]
    del model.opset_import[:]
    model.opset_import.extend(imports)


def _make_plain(node: NodeProto) -> None:
    if is_mark(node):
        node.domain, node.op_type = "", "Identity"
        del node.attribute[:]


def _rename(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Rename what nodes read and write; names are unique, also in the bodies of If and Loop."""
    for node in graph.node:
        for field in (node.input, node.output):
            field[:] = [names.get(name, name) for name in field]
        for body in bodies(node):
            _rename(body, names)
            for value in body.output:
                value.name = names.get(value.name, value.name)


def reads(node: NodeProto) -> list[str]:
    """The values that a node reads, those that its bodies take from around it included."""
    names = [name for name in node.input if name]
    for body in bodies(node):
        own = {value.name for value in body.input} | initializer_names(body)
        own |= {name for each in body.node for name in each.output}
        inside = [name for each in body.node for name in reads(each)]
        names += [n for n in (*inside, *(value.name for value in body.output)) if n not in own]
    return names


def bodies(node: NodeProto) -> list[GraphProto]:
    """The graphs in a node's attributes: the branches of an If, the body of a Loop."""
    found = [each.g for each in node.attribute if each.HasField("g")]
    return found + [graph for each in node.attribute for graph in each.graphs]


def _subgraphs(graph: GraphProto) -> Iterator[GraphProto]:
    for node in graph.node:
        for body in bodies(node):
            yield body
            yield from _subgraphs(body)


def initializer_names(graph: GraphProto) -> set[str]:
    """The names of a graph's weights."""
    dense = {tensor.name for tensor in graph.initializer}
    return dense | {tensor.values.name for tensor in graph.sparse_initializer}
