"""Conversion of an ONNX file to half precision: fp16 or bf16.

A node computes in half precision if its operator's schema allows the type. The model's inputs and
outputs keep their dtypes. A Cast is inserted only between nodes of different precisions.
"""

# Not the converters of ONNX Runtime and onnxconverter-common: they have no bf16, and skip the
# operators that ONNX Runtime has no kernels for, which differ from engine to engine.

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from enginebay.errors import MissingDependencyError
from enginebay.installation import install_command
from enginebay.ir.local_functions import inline_functions
from enginebay.ir.newer_opset import raise_opset

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    import onnx_ir
    from onnx.defs import OpSchema

#: Operators that overflow in fp16, such as sums and powers, or that compute positions, for which
#: the 8 bits of bf16's significand are not enough.
FP32_OPS = frozenset(
    {
        *("Exp", "Pow", "CumSum", "Range", "GridSample", "RoiAlign", "NonMaxSuppression"),
        *(f"Reduce{kind}" for kind in ("Sum", "Mean", "Prod", "L1", "L2", "SumSquare")),
        *("ReduceLogSum", "ReduceLogSumExp", "MeanVarianceNormalization"),
    }
)
#: The first opset whose convolutions, poolings and trigonometric operators accept bfloat16.
BF16_OPSET = 22
#: The size above which the weights are written to a second file. A protobuf message is limited to
#: 2 GB, and half of that leaves enough for the graph.
INLINE_WEIGHT_BYTES = 1 << 30


def to_half(
    source: Path,
    target: Path,
    precision: Literal["fp16", "bf16"],
    *,
    fp32_ops: Collection[str] = (),
    fp32_nodes: Collection[str] = (),
    suspect: Callable[[str], None] | None = None,
) -> list[Path]:
    """Write a copy of an ONNX model that computes in half precision, and return the files.

    The inputs and outputs keep their names and dtypes. Weights are clipped to the range of the
    precision, so that a mask stays finite. Weights that would be rounded to 0 become the
    smallest positive or negative number of the precision, so that an epsilon stays positive.
    :data:`FP32_OPS` and operators outside ONNX's own domain stay in fp32.

    Args:
        source: An ``.onnx`` file, with or without external data.
        target: The file to write; weights of 1 GiB and more go to a second file next to it.
        precision: ``fp16`` or ``bf16``. For bf16 the model is converted to opset 22 first.
        fp32_ops: Further operators that stay in fp32, such as ``Resize``.
        fp32_nodes: Names of nodes that stay in fp32.
        suspect: A function to call with a sentence for each weight that was clipped, such as
            :attr:`enginebay.hooks.ConvertRequest.suspect`.

    Returns:
        The written files: ``target``, and the file with the external data if there is one.

    Raises:
        MissingDependencyError: onnx-ir is not installed.
        ConversionError: The model cannot be converted to opset 22.
    """
    try:
        import onnx_ir
    except ImportError as err:
        raise MissingDependencyError(
            f"precision {precision} requires onnx-ir: {err}",
            hint=install_command("enginebay[export]"),
        ) from err
    dtypes = {"fp16": onnx_ir.DataType.FLOAT16, "bf16": onnx_ir.DataType.BFLOAT16}
    model = _load_typed(source, precision)
    converter = _Converter(model, dtypes[precision], precision)
    converter.run(FP32_OPS.union(fp32_ops), fp32_nodes)
    files = _save_model(model, target)
    if suspect is not None:
        for text in converter.clipped.values():
            suspect(text)
    return files


def _load_typed(source: Path, precision: str) -> onnx_ir.Model:
    """Load a model, inline functions, infer types, and turn constants into initializers."""
    import onnx
    import onnx_ir
    from onnx_ir.passes.common import LiftConstantsToInitializersPass

    proto = onnx.load(source, load_external_data=False)
    if precision == "bf16":
        proto = raise_opset(proto, BF16_OPSET, folder=source.parent, precision=precision)
    proto = inline_functions(proto)
    # onnx's shape inference, since onnx_ir's own pass mistakes sequences for tensors. It is limited
    # to 2 GB, so the external data is attached afterwards.
    model = onnx_ir.from_proto(onnx.shape_inference.infer_shapes(proto))
    onnx_ir.external_data.set_base_dir(model.graph, source.parent)
    return LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model).model


def _save_model(model: onnx_ir.Model, target: Path) -> list[Path]:
    import onnx_ir

    weights = (v.const_value for g in model.graphs() for v in g.initializers.values())
    if sum(weight.nbytes for weight in weights if weight is not None) < INLINE_WEIGHT_BYTES:
        onnx_ir.external_data.load_to_model(model)
        onnx_ir.save(model, target)
        return [target]
    data = target.with_name(f"{target.name}.data")
    onnx_ir.save(model, target, external_data=data.name)
    return [target, data]


class _Converter:
    """Converts fp32 values of a model and of its subgraphs to half precision, in place."""

    def __init__(self, model: onnx_ir.Model, dtype: onnx_ir.DataType, suffix: str) -> None:
        self._model = model
        self._dtype = dtype
        self._suffix = suffix
        # Node inputs as (node, index): first the inputs that must be half, then those of any type.
        self._half_uses: set[tuple[onnx_ir.Node, int]] = set()
        self._any_uses: set[tuple[onnx_ir.Node, int]] = set()
        self._half_outputs: set[onnx_ir.Value] = set()
        #: Weight → a sentence, if the weight was clipped when it was written.
        self.clipped: dict[str, str] = {}

    def run(self, fp32_ops: Collection[str], fp32_nodes: Collection[str]) -> None:
        for node in self._model.graph.all_nodes():
            if node.op_type not in fp32_ops and node.name not in fp32_nodes:
                self._choose_half_uses(node)
        for graph in self._model.graphs():
            for value in list(filter(_is_fp32, _list_values(graph))):
                self._convert_value(value, graph)

    def _choose_half_uses(self, node: onnx_ir.Node) -> None:
        """Record which inputs and outputs of a node will be converted to half precision."""
        schema = _node_schema(node, self._model.opset_imports.get("", 1))
        if schema is None:
            return
        inputs = list(_pair_with_type_variables(node.inputs, schema.inputs))
        outputs = list(_pair_with_type_variables(node.outputs, schema.outputs))
        half_type = f"tensor({self._dtype.numpy().name})"
        allowed = {
            c.type_param_str for c in schema.type_constraints if half_type in c.allowed_type_strs
        }
        # Values with the same type variable must have the same type: convert all or none.
        fixed = {variable for variable, _, value in (*inputs, *outputs) if not _is_fp32(value)}
        chosen = {variable for variable, _, _ in inputs} & allowed - fixed
        uses = {(node, index) for variable, index, _ in inputs if variable in chosen}
        made = {value for variable, _, value in outputs if variable in chosen}
        # An operator with one input and no half output (Shape, Cast) gains nothing from a Cast.
        (self._half_uses if made or len(uses) > 1 else self._any_uses).update(uses)
        self._half_outputs |= made

    def _convert_value(self, value: onnx_ir.Value, graph: onnx_ir.Graph) -> None:
        """Set a value's type, and insert a Cast for nodes that read the value in another type."""
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
            names = [node.name or node.op_type for node, _ in readers]
            copy = self._add_copy(value, graph, names, is_half=is_half)
            for node, index in readers:
                node.replace_input_with(index, copy)
            if is_output:
                graph.outputs[:] = [copy if out is value else out for out in graph.outputs]
        if value.is_initializer() and not (value.uses() or value.is_graph_output()):
            graph.initializers.pop(value.name or "")

    def _add_copy(
        self, value: onnx_ir.Value, graph: onnx_ir.Graph, readers: Sequence[str], *, is_half: bool
    ) -> onnx_ir.Value:
        # The fp32 value gets the original name, which the model's users know.
        import onnx_ir

        name, half_name = value.name, f"{value.name}__{self._suffix}"
        if is_half:
            value.name = half_name
            return _insert_cast(value, name, onnx_ir.DataType.FLOAT, graph)
        weight = None if value.is_graph_input() else value.const_value
        if weight is None:
            return _insert_cast(value, half_name, self._dtype, graph)
        # Lazy, since the weights of a large model may not fit into memory at once.
        rounded = onnx_ir.LazyTensor(
            lambda: self._round(weight, half_name, readers),
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

    def _round(
        self, weight: onnx_ir.TensorProtocol, name: str, readers: Sequence[str]
    ) -> onnx_ir.TensorProtocol:
        import ml_dtypes
        import numpy as np

        array, largest = weight.numpy(), float(ml_dtypes.finfo(self._dtype.numpy()).max)
        beyond = array[np.isfinite(array) & (np.abs(array) > largest)]
        if beyond.size:
            self.clipped[name] = (
                f"the constant {beyond[np.abs(beyond).argmax()]:.6g} of {', '.join(readers)} is "
                f"beyond {largest:.6g}, the largest number of {self._suffix}, which replaces it"
            )
        return _round_to_half(weight, self._dtype)


def _node_schema(node: onnx_ir.Node, opset: int) -> OpSchema | None:
    """Return the schema of a node's operator; None if the node must stay in fp32."""
    import onnx
    import onnx_ir

    # If and Loop return values of their subgraphs, whose nodes are converted on their own.
    holds_graph = any(attr.type.name.startswith("GRAPH") for attr in node.attributes.values())
    types = {type(value.type) for value in (*node.inputs, *node.outputs) if value is not None}
    has_sequence = not types <= {onnx_ir.TensorType, type(None)}
    if node.domain not in ("", "ai.onnx") or holds_graph or has_sequence:
        return None
    try:
        return onnx.defs.get_schema(node.op_type, opset, "")
    except onnx.defs.SchemaError:
        return None


def _pair_with_type_variables(
    values: Iterable[onnx_ir.Value | None], formal: Sequence[OpSchema.FormalParameter]
) -> Iterator[tuple[str, int, onnx_ir.Value]]:
    """Yield (type variable, index, value) for each of a node's inputs, or for each of its outputs.

    ``formal`` contains the parameters, with their type variables, in the schema of the node's
    operator. Optional inputs and outputs that the node does not have are left out.
    """
    for index, value in enumerate(values):
        if value is not None and value.name:
            # The last formal parameter may be variadic.
            yield formal[min(index, len(formal) - 1)].type_str, index, value


def _is_fp32(value: onnx_ir.Value) -> bool:
    import onnx_ir

    # The type is checked too, since sequences of tensors have a dtype as well.
    return isinstance(value.type, onnx_ir.TensorType) and value.dtype == onnx_ir.DataType.FLOAT


def _list_values(graph: onnx_ir.Graph) -> Iterable[onnx_ir.Value]:
    outputs = (output for node in graph for output in node.outputs)
    # dict.fromkeys drops duplicates: an initializer may be a graph input too.
    return dict.fromkeys((*graph.inputs, *graph.initializers.values(), *outputs))


def _insert_cast(
    value: onnx_ir.Value, name: str | None, dtype: onnx_ir.DataType, graph: onnx_ir.Graph
) -> onnx_ir.Value:
    """Insert a Cast after a value's producer, or as the first node; return the Cast's output."""
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


def _round_to_half(
    weight: onnx_ir.TensorProtocol, dtype: onnx_ir.DataType
) -> onnx_ir.TensorProtocol:
    """Round a weight to half precision, so that no element becomes infinite or 0."""
    import ml_dtypes
    import numpy as np
    import onnx_ir

    array, limits = weight.numpy(), ml_dtypes.finfo(dtype.numpy())
    largest, smallest = float(limits.max), float(limits.smallest_subnormal)
    clipped = np.where(np.isfinite(array), np.clip(array, -largest, largest), array)
    is_tiny = (clipped != 0) & (np.abs(clipped) < smallest)
    fitting = np.where(is_tiny, np.copysign(smallest, clipped), clipped)
    return onnx_ir.Tensor(fitting.astype(dtype.numpy()), dtype=dtype)
