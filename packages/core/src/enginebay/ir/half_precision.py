"""Half precision: an ONNX file becomes one that computes in fp16 or bf16.

A node computes in half precision where its operator's schema has that type; the model's inputs and
outputs keep theirs. A Cast stands only where the two precisions meet.
"""

# The converters of ONNX Runtime and of onnxconverter-common know no bf16, and go by lists of
# operators that ONNX Runtime lacks kernels for, where every engine differs.

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from enginebay.errors import ConversionError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    import onnx_ir

#: Operators that overflow in fp16 (sums and powers) or lose their meaning in the 8 bits of bf16's
#: mantissa (positions).
FP32_OPS = frozenset(
    {
        *("Exp", "Pow", "CumSum", "Range", "GridSample", "RoiAlign", "NonMaxSuppression"),
        *(f"Reduce{kind}" for kind in ("Sum", "Mean", "Prod", "L1", "L2", "SumSquare")),
        *("ReduceLogSum", "ReduceLogSumExp", "MeanVarianceNormalization"),
    }
)
#: The first opset in which ONNX's convolutions, poolings and trigonometry take bfloat16.
BF16_OPSET = 22
#: Larger models keep their weights beside the file, in bytes: a protobuf file ends at 2 GB, and
#: half of that leaves room for the graph itself.
LARGE = 1 << 30


def to_half(
    source: Path,
    target: Path,
    precision: Literal["fp16", "bf16"],
    *,
    fp32_ops: Collection[str] = (),
    fp32_nodes: Collection[str] = (),
) -> list[Path]:
    """Write a copy of an ONNX model that computes in half precision.

    Inputs and outputs keep their names and dtypes. Weights beyond the range of the type become its
    largest numbers, those too small for it its smallest: a mask stays finite, an epsilon above 0.
    Operators of other domains than ONNX's own stay in fp32, and so do :data:`FP32_OPS`.

    Args:
        source: An ``.onnx`` file; weights of any size may lie beside it.
        target: The file to write; weights of 1 GiB and more go beside it.
        precision: ``fp16`` or ``bf16``. For bf16 the model is raised to opset 22 first.
        fp32_ops: More operators that stay in fp32, such as ``Resize``.
        fp32_nodes: Names of nodes that stay in fp32.

    Returns:
        The files written: ``target``, then its weights if they are not inside.

    Raises:
        MissingDependencyError: onnx-ir is not installed.
        ConversionError: The model cannot be raised to opset 22.
    """
    try:
        import onnx_ir
    except ImportError as err:
        raise MissingDependencyError(
            f"precision {precision} needs onnx-ir: {err}", hint="pip install 'enginebay[export]'"
        ) from err
    dtypes = {"fp16": onnx_ir.DataType.FLOAT16, "bf16": onnx_ir.DataType.BFLOAT16}
    model = _read(source, precision)
    converter = _Converter(model, dtypes[precision], precision)
    converter.run(FP32_OPS.union(fp32_ops), fp32_nodes)
    return _write(model, target)


def _read(source: Path, precision: str) -> onnx_ir.Model:
    """Load a model without functions and Constant nodes, its values typed."""
    import onnx
    import onnx_ir
    from onnx.inliner import inline_local_functions
    from onnx_ir.passes.common import LiftConstantsToInitializersPass

    proto = inline_local_functions(onnx.load(source, load_external_data=False))
    if precision == "bf16":
        proto = _raise_opset(proto, source.parent)
    # onnx_ir's own pass takes sequences for tensors. Here it runs without the weights that lie
    # beside the file: it ends at 2 GB.
    model = onnx_ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    onnx_ir.external_data.set_base_dir(model.graph, source.parent)
    return LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model).model


def _raise_opset(proto: Any, folder: Path) -> Any:
    from onnx import version_converter
    from onnx.external_data_helper import load_external_data_for_model

    found = next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 1)
    if found >= BF16_OPSET:
        return proto
    load_external_data_for_model(proto, str(folder))  # the converter drops what lies outside
    try:
        return version_converter.convert_version(proto, BF16_OPSET)
    except Exception as err:
        raise ConversionError(
            f"bf16 needs opset {BF16_OPSET}, and the model cannot be raised from {found}: "
            f"{str(err).splitlines()[0]}",
            hint=f"export it with opset {BF16_OPSET}, or use fp16",
        ) from err


def _write(model: onnx_ir.Model, target: Path) -> list[Path]:
    import onnx_ir

    weights = (v.const_value for g in model.graphs() for v in g.initializers.values())
    if sum(weight.nbytes for weight in weights if weight is not None) < LARGE:
        onnx_ir.external_data.load_to_model(model)
        onnx_ir.save(model, target)
        return [target]
    data = target.with_name(f"{target.name}.data")
    onnx_ir.save(model, target, external_data=data.name)
    return [target, data]


class _Converter:
    """Turns the fp32 values of a model, subgraphs included, into half precision in place."""

    def __init__(self, model: onnx_ir.Model, dtype: onnx_ir.DataType, suffix: str) -> None:
        self._model = model
        self._dtype = dtype
        self._suffix = suffix
        # Inputs of nodes, each as node and index: those read in half precision, and those that
        # are read as they come.
        self._half_uses: set[tuple[onnx_ir.Node, int]] = set()
        self._any_uses: set[tuple[onnx_ir.Node, int]] = set()
        self._half_outputs: set[onnx_ir.Value] = set()

    def run(self, fp32_ops: Collection[str], fp32_nodes: Collection[str]) -> None:
        for node in self._model.graph.all_nodes():
            if node.op_type not in fp32_ops and node.name not in fp32_nodes:
                self._choose(node)
        for graph in self._model.graphs():
            for value in list(filter(_is_fp32, _values(graph))):
                self._convert(value, graph)

    def _choose(self, node: onnx_ir.Node) -> None:
        """Note which inputs and outputs of a node its operator lets be in half precision."""
        schema = _schema(node, self._model.opset_imports.get("", 1))
        if schema is None:
            return
        inputs = list(_by_variable(node.inputs, schema.inputs))
        outputs = list(_by_variable(node.outputs, schema.outputs))
        wanted = f"tensor({self._dtype.numpy().name})"
        allowed = {
            c.type_param_str for c in schema.type_constraints if wanted in c.allowed_type_strs
        }
        # All that share a type variable change together or not at all.
        fixed = {variable for variable, _, value in (*inputs, *outputs) if not _is_fp32(value)}
        chosen = {variable for variable, _, _ in inputs} & allowed - fixed
        uses = {(node, index) for variable, index, _ in inputs if variable in chosen}
        made = {value for variable, _, value in outputs if variable in chosen}
        # Shape and Cast gain nothing from an input that was rounded for them alone.
        (self._half_uses if made or len(uses) > 1 else self._any_uses).update(uses)
        self._half_outputs |= made

    def _convert(self, value: onnx_ir.Value, graph: onnx_ir.Graph) -> None:
        """Set a value's type, and give a copy of the other type to whoever reads that."""
        is_half = value in self._half_outputs
        if is_half:
            value.dtype = self._dtype
        readers = [
            use
            for use in value.uses()
            if (use in self._half_uses) is not is_half and use not in self._any_uses
        ]
        is_output = is_half and value.is_graph_output()
        if readers or is_output:
            copy = self._copy(value, graph, is_half=is_half)
            for node, index in readers:
                node.replace_input_with(index, copy)
            if is_output:
                graph.outputs[:] = [copy if each is value else each for each in graph.outputs]
        if value.is_initializer() and not (value.uses() or value.is_graph_output()):
            graph.initializers.pop(value.name or "")

    def _copy(self, value: onnx_ir.Value, graph: onnx_ir.Graph, *, is_half: bool) -> onnx_ir.Value:
        """Add a value's copy in fp32 or in half precision; the one in fp32 has the model's name."""
        import onnx_ir

        name, half_name = value.name, f"{value.name}__{self._suffix}"
        if is_half:
            value.name = half_name
            return _cast(value, name, onnx_ir.DataType.FLOAT, graph)
        weight = None if value.is_graph_input() else value.const_value
        if weight is None:
            return _cast(value, half_name, self._dtype, graph)
        # Lazy: the weights of a large model may not fit into memory all at once.
        rounded = onnx_ir.LazyTensor(
            lambda: _rounded(weight, self._dtype),
            self._dtype,
            onnx_ir.Shape(weight.shape.numpy()),
            name=half_name,
        )
        half = onnx_ir.Value(
            name=half_name,
            type=onnx_ir.TensorType(self._dtype),
            shape=rounded.shape,
            const_value=rounded,
        )
        graph.register_initializer(half)
        return half


def _schema(node: onnx_ir.Node, opset: int) -> Any:
    """Return a node's ``onnx.defs.OpSchema``; None where the node must stay as it is."""
    import onnx
    import onnx_ir

    # If and Loop pass on what the nodes inside compute, which are converted each by itself.
    holds_graph = any(each.type.name.startswith("GRAPH") for each in node.attributes.values())
    types = {type(value.type) for value in (*node.inputs, *node.outputs) if value is not None}
    has_sequence = not types <= {onnx_ir.TensorType, type(None)}
    if node.domain not in ("", "ai.onnx") or holds_graph or has_sequence:
        return None
    try:
        return onnx.defs.get_schema(node.op_type, opset, "")
    except onnx.defs.SchemaError:
        return None


def _by_variable(
    values: Iterable[onnx_ir.Value | None], formal: Any
) -> Iterator[tuple[str, int, onnx_ir.Value]]:
    """Yield the type variable, position and value of each input or output that is given."""
    for index, value in enumerate(values):
        if value is not None and value.name:
            # The last formal parameter may stand for several.
            yield formal[min(index, len(formal) - 1)].type_str, index, value


def _is_fp32(value: onnx_ir.Value) -> bool:
    import onnx_ir

    # Sequences have a dtype too.
    return isinstance(value.type, onnx_ir.TensorType) and value.dtype == onnx_ir.DataType.FLOAT


def _values(graph: onnx_ir.Graph) -> Iterable[onnx_ir.Value]:
    made = (output for node in graph for output in node.outputs)
    # An initializer may be an input too.
    return dict.fromkeys((*graph.inputs, *graph.initializers.values(), *made))


def _cast(
    value: onnx_ir.Value, name: str | None, dtype: onnx_ir.DataType, graph: onnx_ir.Graph
) -> onnx_ir.Value:
    """Add a Cast after the node that computes a value, or before the first for an input."""
    import onnx_ir

    cast = onnx_ir.node("Cast", [value], {"to": dtype}, name=f"{name}_cast")
    producer = value.producer()
    if producer is None:
        graph.insert_before(graph[0], cast)
    else:
        graph.insert_after(producer, cast)
    (output,) = cast.outputs
    output.name, output.shape, output.dtype = name, value.shape, dtype
    return output


def _rounded(weight: onnx_ir.TensorProtocol, dtype: onnx_ir.DataType) -> onnx_ir.TensorProtocol:
    """Round to half precision; what is finite stays so, and so does what is not zero."""
    import ml_dtypes
    import numpy as np
    import onnx_ir

    array, limits = weight.numpy(), ml_dtypes.finfo(dtype.numpy())
    largest, smallest = float(limits.max), float(limits.smallest_subnormal)
    finite = np.where(np.isfinite(array), np.clip(array, -largest, largest), array)
    is_tiny = (finite != 0) & (np.abs(finite) < smallest)
    fitting = np.where(is_tiny, np.copysign(smallest, finite), finite)
    return onnx_ir.Tensor(fitting.astype(dtype.numpy()), dtype=dtype)
