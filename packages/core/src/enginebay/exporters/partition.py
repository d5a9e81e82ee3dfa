"""One ONNX model becomes several, which run one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from enginebay.errors import ExportError, UsageError
from enginebay.exporters.marked_graph import (
    Levels,
    find_cuts,
    initializer_names,
    is_mark,
    reads,
    remove_marks,
)
from enginebay.exporters.part_file import save_part
from enginebay.ir import read_onnx

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

    from enginebay.ir import IRModel


def split(ir: IRModel, cuts: Sequence[str], folder: Path) -> list[IRModel]:
    """Cut an ONNX model at marks.

    A part takes what it uses of the model's inputs and of all earlier parts' outputs, and gives
    what later parts use and the model's own outputs. A tensor that is cut at is called what its
    mark is called, every other one what the exporter called it.

    Args:
        ir: An ONNX model that was exported with :func:`~enginebay.rewriting.mark_nodes`.
        cuts: Names of marks in the order of the model. Tensors that are marked with the same
            name are cut together.
        folder: Where ``part_0.onnx``, ``part_1.onnx`` … go, and the weights of each, where the
            model has weights in a second file, beside it.

    Returns:
        One model more than there are cuts, in the order in which they must run, without marks.

    Raises:
        UsageError: No mark has the name, or the graph does not come apart there.
        ExportError: The dtype of a tensor that is cut at is not known.
    """
    import onnx

    model = onnx.load(ir.path, load_external_data=False)
    at = find_cuts(model.graph, cuts)
    levels = Levels(model.graph, at)
    results = {value.name for value in model.graph.output}
    kept = [
        level
        for node, level in zip(model.graph.node, levels.nodes, strict=True)
        if not is_mark(node) or node.output[0] in results  # these stay, as Identity
    ]
    remove_marks(model, at)
    types = _types(model, trusted=_shapes_are_right(ir))
    parts = _Cut(model.graph, kept, len(cuts) + 1).parts(cuts)
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _saved(model, part, types, ir, folder / f"part_{number}.onnx")
        for number, part in enumerate(parts)
    ]


@dataclass(frozen=True)
class _Part:
    nodes: list[NodeProto]
    inputs: list[str]
    outputs: list[str]


class _Cut:
    """A graph without marks whose nodes have levels."""

    def __init__(self, graph: GraphProto, levels: Sequence[int | None], count: int) -> None:
        self._count = count
        self._nodes = list(zip(graph.node, levels, strict=True))
        self._weights = initializer_names(graph)
        self._results = [value.name for value in graph.output]
        #: Where each value comes from: 0 also for the model's inputs and for constants.
        self._from = {value.name: 0 for value in graph.input if value.name not in self._weights}
        self._inputs = set(self._from)
        self._constants: set[str] = set(self._weights)
        for node, level in self._nodes:
            self._from.update(dict.fromkeys(filter(None, node.output), level or 0))
            if level is None:
                self._constants.update(node.output)

    def parts(self, cuts: Sequence[str]) -> list[_Part]:
        """The parts in order."""
        for level in range(self._count):
            if not any(
                there == level and node.op_type != "Identity" for node, there in self._nodes
            ):
                raise _nothing_there(cuts, level)
        chosen = [self._chosen(level) for level in range(self._count)]
        wanted = [self._wanted(nodes) for nodes in chosen]
        return [
            _Part(
                nodes,
                wanted[level],
                [
                    name
                    for name, origin in self._from.items()
                    if origin == level and self._leaves(name, wanted[level + 1 :])
                ],
            )
            for level, nodes in enumerate(chosen)
        ]

    def _chosen(self, level: int) -> list[NodeProto]:
        """The nodes of a level with the constants that they read, which each part has itself."""
        wanted = set(self._results) if level == 0 else set()
        chosen = []
        for node, there in reversed(self._nodes):
            if there == level or (there is None and not wanted.isdisjoint(node.output)):
                chosen.append(node)
                wanted.update(reads(node))
        return chosen[::-1]

    def _wanted(self, nodes: Sequence[NodeProto]) -> list[str]:
        """What some nodes read and do not make, in the order of the whole graph."""
        made = {name for node in nodes for name in node.output} | self._weights
        needed = {name for node in nodes for name in reads(node)} - made
        return [name for name in self._from if name in needed]

    def _leaves(self, name: str, later: Sequence[Sequence[str]]) -> bool:
        if name in self._results:
            return True
        # The caller has the model's inputs at hand for every part.
        return name not in self._inputs and any(name in names for names in later)


def _nothing_there(cuts: Sequence[str], level: int) -> UsageError:
    if level == 0:
        where = f"before '{cuts[0]}'"
    elif level == len(cuts):
        where = f"after '{cuts[-1]}'"
    else:
        where = f"between '{cuts[level - 1]}' and '{cuts[level]}'"
    return UsageError(
        f"the graph does not come apart: there is no node {where}",
        hint="leave one of the cuts out, or mark another tensor",
    )


def _shapes_are_right(ir: IRModel) -> bool:
    """Whether the file's shapes can be believed: a trace writes an example's open sizes down."""
    return "dynamo" in ir.exporter or all(spec.is_static for spec in ir.inputs)


def _types(model: ModelProto, *, trusted: bool) -> dict[str, ValueInfoProto]:
    """The dtype and shape of every value, as far as they are known."""
    import onnx

    graph = model.graph
    recorded = {info.name: info for info in graph.value_info}
    if not trusted:
        del graph.value_info[:]
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    found = {info.name: info for info in (*graph.input, *graph.output, *inferred.value_info)}
    for name, info in recorded.items():
        if name not in found or not found[name].type.tensor_type.elem_type:
            found[name] = info if trusted else _open(info)
    return found


def _open(info: ValueInfoProto) -> ValueInfoProto:
    """The dtype and the rank of a value, with every dimension open."""
    for dim in info.type.tensor_type.shape.dim:
        dim.Clear()
    return info


def _saved(
    model: ModelProto,
    part: _Part,
    types: Mapping[str, ValueInfoProto],
    ir: IRModel,
    path: Path,
) -> IRModel:
    import onnx

    own = onnx.ModelProto()
    own.CopyFrom(model)  # operator sets, local functions, who made it
    own.ClearField("graph")
    graph, whole = own.graph, model.graph
    graph.name = f"{whole.name}_{path.stem}"
    graph.node.extend(part.nodes)
    graph.input.extend(_typed(name, types) for name in part.inputs)
    graph.output.extend(_typed(name, types) for name in part.outputs)
    used = {name for node in part.nodes for name in reads(node)} | set(part.outputs)
    graph.initializer.extend(each for each in whole.initializer if each.name in used)
    graph.sparse_initializer.extend(e for e in whole.sparse_initializer if e.values.name in used)
    made = {name for node in part.nodes for name in node.output} - set(part.outputs)
    graph.value_info.extend(info for info in whole.value_info if info.name in made)
    save_part(own, path, ir.path.parent)
    return msgspec.structs.replace(read_onnx(path), exporter=ir.exporter, notes=ir.notes)


def _typed(name: str, types: Mapping[str, ValueInfoProto]) -> ValueInfoProto:
    info = types.get(name)
    if info is None or not info.type.WhichOneof("value"):
        raise ExportError(
            f"the graph cannot be cut at '{name}': its dtype is not known",
            hint="mark a tensor before or after it, or choose the other exporter",
        )
    return info
