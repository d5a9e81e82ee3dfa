"""Cut one ONNX model into several, which run one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.errors import ExportError, UsageError
from enginebay.exporters.graph_cuts import find_cuts, is_mark, mark_name, reads
from enginebay.exporters.tensor_marks import mark_tensors
from enginebay.ir import read_onnx
from enginebay.models import unused
from enginebay.rewriting import DOMAIN, Cut

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from onnx_ir import Graph, Model, Shape, Value

    from enginebay.ir import IRModel

#: They read nothing, and yet are no constants: drawn in two parts, the numbers would differ.
_RANDOM = {"RandomNormal", "RandomUniform"}


def split(ir: IRModel, cuts: Sequence[str | Cut], folder: Path) -> list[IRModel]:
    """Cut an ONNX model at marks; one that came as a file also at its tensors.

    A part takes what it uses of the model's inputs and of all earlier parts' outputs, and gives
    what later parts use and the model's own outputs. A tensor that is cut at is called what its
    mark is called, every other one what the exporter called it.

    Args:
        ir: An ONNX file, or a model that was exported with
            :func:`~enginebay.rewriting.mark_nodes`. Its external data was checked when it was read.
        cuts: Names of marks, or of a file's tensors, in the order of the model. Tensors that are
            marked with the same name, or named by one :class:`Cut`, are cut together.
        folder: Where ``part_0.onnx``, ``part_1.onnx`` … go, and the weights of each, where the
            model has weights in a second file, beside it.

    Returns:
        The parts, one more than there are cuts inside the model, in the order in which they must
        run, without marks.

    Raises:
        UsageError: No mark or tensor has the name, or the graph does not come apart there.
        ExportError: The dtype of a tensor that is cut at is not known, or the model has sparse
            initializers.
    """
    import onnx_ir

    model = _load(ir.path)
    places = [Cut((cut,)) if isinstance(cut, str) else cut for cut in cuts]
    if ir.exporter == "file" and not any(map(is_mark, model.graph)):
        mark_tensors(model.graph, places)
    places, cut_values = find_cuts(model.graph, places)
    levels = _assign_levels(model.graph, places, cut_values)
    _check_levels(places, cut_values, levels)
    _remove_marks(model, cut_values)
    # A trace writes the sizes of its example down, also where they are open.
    _infer_types(model, trusted="dynamo" in ir.exporter or all(s.is_static for s in ir.inputs))
    parts = _extract_parts(model.graph, levels, places)
    folder.mkdir(parents=True, exist_ok=True)
    name, saved = model.graph.name, []
    for number, part in enumerate(parts):
        path = folder / f"part_{number}.onnx"
        part.name = f"{name}_{path.stem}"
        model.graph = part
        weights = f"{path.name}.data" if len(ir.files) > 1 else None
        onnx_ir.save(model, path, external_data=weights)  # copied from file to file
        saved.append(msgspec.structs.replace(read_onnx(path), exporter=ir.exporter, notes=ir.notes))
    return saved


def _load(path: Path) -> Model:
    import onnx
    import onnx_ir

    proto = onnx.load(path, load_external_data=False)
    if sparse := proto.graph.sparse_initializer:  # onnx_ir would lose them
        raise ExportError(
            f"the graph cannot be cut: its initializer '{sparse[0].values.name}' is sparse",
            hint="store it as a dense tensor",
        )
    model: Model = onnx_ir.from_proto(proto)
    onnx_ir.external_data.set_base_dir(model.graph, path.parent)
    return model


def _assign_levels(
    graph: Graph, cuts: Sequence[Cut], cut_values: Mapping[Value, int]
) -> dict[Value, int | None]:
    """Count the cuts before each value; None for a constant, which every part has for itself."""
    levels: dict[Value, int | None] = {
        value: 0 for value in graph.inputs if not value.is_initializer()
    }
    for node in graph:
        read = [level for value in reads(node) if (level := levels.get(value)) is not None]
        level = max(read, default=0 if node.op_type in _RANDOM else None)
        cut = cut_values.get(node.outputs[0])
        if level is not None and cut is not None:
            if level > cut:
                name = cuts[cut].quoted(mark_name(node))
                raise UsageError(
                    f"the graph cannot be cut at {name}: this place lies behind its "
                    "own cut, or behind one that comes later in the list",
                    hint="name the cuts in the order of the model, and give each place its own "
                    "name",
                )
            level = cut + 1
        levels.update(dict.fromkeys(node.outputs, level))
    return levels


def _check_levels(
    cuts: Sequence[Cut], cut_values: Mapping[Value, int], levels: Mapping[Value, int | None]
) -> None:
    """Check that each cut is at a tensor that depends on the model's inputs."""
    variable = {number for value, number in cut_values.items() if levels[value] is not None}
    for number, cut in enumerate(cuts):
        if number not in variable:
            raise UsageError(
                f"the graph cannot be cut at {cut}: it is a constant, which every part has for "
                "itself",
                hint="cut at a tensor that depends on the model's inputs",
            )


def _remove_marks(model: Model, cuts: Mapping[Value, int]) -> None:
    """Take every mark out of a model; a tensor that is cut at gets the name of its mark."""
    from onnx_ir.convenience import create_value_mapping

    taken = set(create_value_mapping(model.graph))
    named: set[Value] = set()
    every = [
        *model.graph.all_nodes(),
        *(n for f in model.functions.values() for n in f.all_nodes()),
    ]
    for node in filter(is_mark, every):
        source, output = node.inputs[0], node.outputs[0]
        assert source is not None
        kept = source in named or source.is_graph_output() or source.producer() is None
        if output in cuts and not kept:
            source.name = unused(mark_name(node), taken - {source.name})
            taken.add(source.name)
            named.add(source)
        if output.is_graph_output() or node.graph is not model.graph:
            # The model's outputs keep their names, and bodies and functions are never cut.
            node.domain, node.op_type = "", "Identity"
            node.attributes.clear()
        else:
            output.replace_all_uses_with(source)
            model.graph.remove(node, safe=True)
    model.graph.opset_imports.pop(DOMAIN, None)


def _infer_types(model: Model, *, trusted: bool) -> None:
    """Find the dtype and shape of every value, as far as they can be known.

    Args:
        model: The model, without marks; changed.
        trusted: The shapes in the file are right. If not, only dtypes and ranks are kept of them.
    """
    import onnx
    import onnx_ir
    from onnx_ir.convenience import create_value_mapping

    made = (value for node in model.graph for value in node.outputs)
    values = {v.name: v for v in made if v.name and not v.is_graph_output()}
    recorded = {name: (value.type, value.shape) for name, value in values.items()}
    if not trusted:
        for name, value in values.items():
            recorded[name] = value.type, _open(value.shape)
            value.type = value.shape = None
    proto = onnx.shape_inference.infer_shapes(onnx_ir.to_proto(model), data_prop=True)
    inferred = create_value_mapping(onnx_ir.from_proto(proto).graph, include_subgraphs=False)
    for name, value in values.items():
        found = inferred[name]
        value.type, value.shape = (found.type, found.shape) if found.type else recorded[name]


def _open(shape: Shape | None) -> Shape | None:
    from onnx_ir import Shape

    return None if shape is None else Shape([None] * len(shape))


def _extract_parts(
    graph: Graph, levels: Mapping[Value, int | None], cuts: Sequence[Cut]
) -> list[Graph]:
    """Copy each level, with the constants that it reads, into a graph of its own."""
    from onnx_ir.convenience import extract

    made = [value for node in graph for value in node.outputs if value.name]
    values = list(dict.fromkeys([*graph.inputs, *graph.initializers.values(), *made]))
    inputs = [_inputs(graph, level, levels) for level in range(len(cuts) + 1)]
    parts = []
    for level, read in enumerate(inputs):
        later = set().union(*inputs[level + 1 :]).difference(graph.inputs)  # the caller has these
        outputs = [
            value
            for value in values
            if (levels.get(value) or 0) == level and (value.is_graph_output() or value in later)
        ]
        if not outputs:
            raise _nothing_there(cuts, level)
        part = extract(graph, [value for value in values if value in read], outputs)
        if all(node.op_type == "Identity" for node in part):
            raise _nothing_there(cuts, level)
        for value in (*part.inputs, *part.outputs):
            _check_type(value)
        parts.append(part)
    return parts


def _inputs(graph: Graph, level: int, levels: Mapping[Value, int | None]) -> set[Value]:
    """Collect what the nodes of a level read of earlier levels and of the model's inputs."""
    nodes = (node for node in graph if levels[node.outputs[0]] == level)
    read = {value for node in nodes for value in reads(node)}
    found = {value: number for value in read if (number := levels.get(value)) is not None}
    return {value for value, number in found.items() if number < level or not value.producer()}


def _nothing_there(cuts: Sequence[Cut], level: int) -> UsageError:
    if level == 0:
        where = f"before {cuts[0]}"
    elif level == len(cuts):
        where = f"after {cuts[-1]}"
    else:
        where = f"between {cuts[level - 1]} and {cuts[level]}"
    return UsageError(
        f"the graph does not come apart: there is no node {where}",
        hint="leave one of the cuts out, or cut at another place",
    )


def _check_type(value: Value) -> None:
    from onnx_ir import TensorType

    if value.type and not isinstance(value.type, TensorType):
        raise ExportError(
            f"the graph cannot be cut here: '{value.name}' is no tensor, and would be passed from "
            "one part to another",
            hint="cut before or after it",
        )
    if not value.dtype:
        raise ExportError(
            f"the graph cannot be cut at '{value.name}': its dtype is not known",
            hint="cut before or after it, or choose the other exporter",
        )
