"""Partition of an ONNX model into several models that run one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.errors import ExportError, UsageError
from enginebay.ir import read_onnx
from enginebay.partition.cuts import Cut
from enginebay.partition.graph_cuts import find_cuts, is_mark, list_read_values, read_mark_name
from enginebay.partition.marking import DOMAIN
from enginebay.partition.tensor_marks import mark_tensors
from enginebay.tensors import choose_unused_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from onnx_ir import Graph, Model, Shape, Value

    from enginebay.ir import IRModel

#: Operators without inputs that are not constants: copies in two parts would return different
#: random numbers.
_RANDOM_OPERATORS = {"RandomNormal", "RandomUniform"}


def split(ir: IRModel, cuts: Sequence[str | Cut], folder: Path) -> list[IRModel]:
    """Cut an ONNX model into parts, at marks (nodes of ``enginebay.mark``) or at tensors.

    Names of tensors are accepted only for a user's ONNX file that contains no marks.

    A part reads inputs of the model and outputs of earlier parts. A part returns outputs of the
    model and the values that later parts read. A tensor at a cut gets the name of the mark; all
    other tensors keep the exporter's names.

    Args:
        ir: An ONNX file, or a model that was exported with
            :func:`~enginebay.partition.mark_nodes`. The caller has checked the external data.
        cuts: Names of marks, or of tensors in a file, in the order of the model. All tensors with
            the same mark, or of the same :class:`Cut`, are cut together.
        folder: The folder for ``part_0.onnx``, ``part_1.onnx`` …. If the model has a separate file
            of weights, so has each part.

    Returns:
        The parts, in the order in which they must run: one more than there are cuts inside the
        model. The parts contain no marks.

    Raises:
        UsageError: No mark or tensor has the name of a cut, or the cuts do not separate the graph.
        ExportError: The dtype of a tensor at a cut is unknown, or the model has sparse
            initializers.
    """
    import onnx_ir

    model = _load_model(ir.path)
    requested = [Cut((cut,)) if isinstance(cut, str) else cut for cut in cuts]
    if ir.exporter == "file" and not any(map(is_mark, model.graph)):
        mark_tensors(model.graph, requested)
    inner_cuts, cut_values = find_cuts(model.graph, requested)
    levels = _assign_levels(model.graph, inner_cuts, cut_values)
    _refuse_constant_cuts(inner_cuts, cut_values, levels)
    _remove_marks(model, cut_values)
    # A trace records the sizes of its example even for dynamic dimensions.
    _infer_types(model, trusted="dynamo" in ir.exporter or all(s.is_static for s in ir.inputs))
    parts = _extract_parts(model.graph, levels, inner_cuts)
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


def _load_model(path: Path) -> Model:
    import onnx
    import onnx_ir

    proto = onnx.load(path, load_external_data=False)  # copied when it is saved
    if sparse := proto.graph.sparse_initializer:  # onnx_ir would drop them
        raise ExportError(
            f"the graph cannot be cut: initializer '{sparse[0].values.name}' is sparse",
            hint="store the initializer as a dense tensor",
        )
    model: Model = onnx_ir.from_proto(proto)
    onnx_ir.external_data.set_base_dir(model.graph, path.parent)
    return model


def _assign_levels(
    graph: Graph, cuts: Sequence[Cut], cut_values: Mapping[Value, int]
) -> dict[Value, int | None]:
    """Return the number of cuts before each value; None for a constant, which all parts copy."""
    levels: dict[Value, int | None] = {
        value: 0 for value in graph.inputs if not value.is_initializer()
    }
    for node in graph:
        read = [
            level for value in list_read_values(node) if (level := levels.get(value)) is not None
        ]
        level = max(read, default=0 if node.op_type in _RANDOM_OPERATORS else None)
        cut = cut_values.get(node.outputs[0])
        if level is not None and cut is not None:
            if level > cut:
                name = cuts[cut].quoted(read_mark_name(node))
                raise UsageError(
                    f"the graph cannot be cut at {name}: this tensor depends on another tensor "
                    "of the same cut, or of a later cut in the list",
                    hint="list the cuts in the order of the model, and use each mark's name once",
                )
            level = cut + 1
        levels.update(dict.fromkeys(node.outputs, level))
    return levels


def _refuse_constant_cuts(
    cuts: Sequence[Cut], cut_values: Mapping[Value, int], levels: Mapping[Value, int | None]
) -> None:
    variable = {number for value, number in cut_values.items() if levels[value] is not None}
    for number, cut in enumerate(cuts):
        if number not in variable:
            raise UsageError(
                f"the graph cannot be cut at {cut}: this tensor is a constant, which is copied "
                "into every part",
                hint="cut at a tensor that depends on the model's inputs",
            )


def _remove_marks(model: Model, cuts: Mapping[Value, int]) -> None:
    """Remove every mark (node of ``enginebay.mark``) from a model.

    A tensor at a cut gets the name of the removed mark.
    """
    from onnx_ir.convenience import create_value_mapping

    taken = set(create_value_mapping(model.graph))
    renamed: set[Value] = set()
    nodes = [
        *model.graph.all_nodes(),
        *(n for f in model.functions.values() for n in f.all_nodes()),
    ]
    for node in filter(is_mark, nodes):
        source, output = node.inputs[0], node.outputs[0]
        assert source is not None
        is_final = source in renamed or source.is_graph_output() or source.producer() is None
        if output in cuts and not is_final:
            source.name = choose_unused_name(read_mark_name(node), taken - {source.name})
            taken.add(source.name)
            renamed.add(source)
        if output.is_graph_output() or node.graph is not model.graph:
            # An Identity preserves the output's name; subgraphs and functions are never cut.
            node.domain, node.op_type = "", "Identity"
            node.attributes.clear()
        else:
            output.replace_all_uses_with(source)
            model.graph.remove(node, safe=True)
    model.graph.opset_imports.pop(DOMAIN, None)


def _infer_types(model: Model, *, trusted: bool) -> None:
    """Infer the dtypes and shapes of all values, and write them into the model.

    The sizes that the model already has are ignored unless they are ``trusted``.
    """
    import onnx
    import onnx_ir
    from onnx_ir.convenience import create_value_mapping

    computed = (value for node in model.graph for value in node.outputs)
    values = {v.name: v for v in computed if v.name and not v.is_graph_output()}
    recorded = {name: (value.type, value.shape) for name, value in values.items()}
    if not trusted:
        for name, value in values.items():
            recorded[name] = value.type, _forget_sizes(value.shape)
            value.type = value.shape = None
    # data_prop: otherwise a Reshape to a shape from a Shape node has no inferred sizes.
    proto = onnx.shape_inference.infer_shapes(onnx_ir.to_proto(model), data_prop=True)
    inferred = create_value_mapping(onnx_ir.from_proto(proto).graph, include_subgraphs=False)
    for name, value in values.items():
        result = inferred[name]
        value.type, value.shape = (result.type, result.shape) if result.type else recorded[name]


def _forget_sizes(shape: Shape | None) -> Shape | None:
    from onnx_ir import Shape

    return None if shape is None else Shape([None] * len(shape))


def _extract_parts(
    graph: Graph, levels: Mapping[Value, int | None], cuts: Sequence[Cut]
) -> list[Graph]:
    """Return a graph for each part, with copies of the part's nodes and of their constants."""
    from onnx_ir.convenience import extract

    computed = [value for node in graph for value in node.outputs if value.name]
    values = list(dict.fromkeys([*graph.inputs, *graph.initializers.values(), *computed]))
    inputs = [_collect_part_inputs(graph, level, levels) for level in range(len(cuts) + 1)]
    parts = []
    for level, read in enumerate(inputs):
        # The caller passes the model's inputs to every part, so no part returns them.
        later = set().union(*inputs[level + 1 :]).difference(graph.inputs)
        outputs = [
            value
            for value in values
            if (levels.get(value) or 0) == level and (value.is_graph_output() or value in later)
        ]
        if not outputs:
            raise _empty_part_error(cuts, level)
        part = extract(graph, [value for value in values if value in read], outputs)
        if all(node.op_type == "Identity" for node in part):
            raise _empty_part_error(cuts, level)
        for value in (*part.inputs, *part.outputs):
            _check_type(value)
        parts.append(part)
    return parts


def _collect_part_inputs(
    graph: Graph, level: int, levels: Mapping[Value, int | None]
) -> set[Value]:
    nodes = (node for node in graph if levels[node.outputs[0]] == level)
    values = {value for node in nodes for value in list_read_values(node)}
    variable = {value: number for value in values if (number := levels.get(value)) is not None}
    return {value for value, number in variable.items() if number < level or not value.producer()}


def _empty_part_error(cuts: Sequence[Cut], level: int) -> UsageError:
    if level == 0:
        where = f"before {cuts[0]}"
    elif level == len(cuts):
        where = f"after {cuts[-1]}"
    else:
        where = f"between {cuts[level - 1]} and {cuts[level]}"
    return UsageError(
        f"the graph cannot be cut: there is no node {where}",
        hint="leave one of the cuts out, or cut at another tensor",
    )


def _check_type(value: Value) -> None:
    from onnx_ir import TensorType

    if value.type and not isinstance(value.type, TensorType):
        raise ExportError(
            f"the graph cannot be cut here: one part would pass '{value.name}' to another, but "
            f"'{value.name}' is not a tensor",
            hint="cut before or after this value",
        )
    if not value.dtype:
        raise ExportError(
            f"the graph cannot be cut at '{value.name}': its dtype is unknown",
            hint="cut before or after this tensor, or choose the other exporter",
        )
