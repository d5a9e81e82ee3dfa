"""fp16 and bf16: the graph itself is converted, since a strongly typed network computes as typed.

Every name in the graph keeps its dtype. What is converted gets a second name, so inputs, outputs,
subgraphs and operators that stay in fp32 need no care, and a Cast stands only where both meet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from enginebay.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from enginebay.authors import NumpyArray

#: What overflows in fp16 (sums and powers) or loses its meaning in 8 bits of mantissa (positions).
KEPT = frozenset(
    {
        *("Exp", "Pow", "CumSum", "Range", "GridSample", "RoiAlign", "NonMaxSuppression"),
        *(f"Reduce{kind}" for kind in ("Sum", "Mean", "Prod", "L1", "L2", "SumSquare")),
        *("ReduceLogSum", "ReduceLogSumExp"),
    }
)
#: The first opset in which ONNX's convolutions, poolings and trigonometry take bfloat16.
BF16_OPSET = 22

_FP16_LARGEST = 65504.0
_FP16_SMALLEST = 2.0**-24


class _Target(NamedTuple):
    element_type: int
    constraint: str
    suffix: str


class _Ports(NamedTuple):
    """The positions of a node whose tensors are converted."""

    inputs: frozenset[int] = frozenset()
    outputs: frozenset[int] = frozenset()


def to_half(model: Any, precision: Literal["fp16", "bf16"]) -> Any:
    """A copy of an ONNX model that computes in half precision and looks the same from outside.

    Args:
        model: An ``onnx.ModelProto`` with its weights, whose shapes were inferred.
        precision: ``fp16`` or ``bf16``. For bf16 the model is raised to opset 22 first.

    Returns:
        The converted model; inputs and outputs have the names and dtypes that they had. Weights
        beyond fp16's range become its largest numbers, those below its smallest.

    Raises:
        ConversionError: The model cannot be raised to opset 22.
    """
    import onnx
    from onnx import TensorProto
    from onnx.inliner import inline_local_functions

    target = {
        "fp16": _Target(TensorProto.FLOAT16, "tensor(float16)", "__fp16"),
        "bf16": _Target(TensorProto.BFLOAT16, "tensor(bfloat16)", "__bf16"),
    }[precision]
    result = onnx.ModelProto()
    result.CopyFrom(inline_local_functions(model))
    if precision == "bf16" and _opset(result) < BF16_OPSET:
        result = _raise_opset(result)
    if not result.graph.value_info:
        result = onnx.shape_inference.infer_shapes(result)
    _Converter(result, target).run()
    return result


def _opset(model: Any) -> int:
    return next((int(o.version) for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)


def _raise_opset(model: Any) -> Any:
    from onnx import shape_inference, version_converter

    try:
        return shape_inference.infer_shapes(version_converter.convert_version(model, BF16_OPSET))
    except Exception as err:
        raise ConversionError(
            f"bf16 needs opset {BF16_OPSET}, and the model cannot be raised from "
            f"{_opset(model)}: {str(err).splitlines()[0]}",
            hint=f"export it with opset {BF16_OPSET}, or use fp16",
        ) from err


class _Converter:
    """Walks the main graph once, in its order."""

    def __init__(self, model: Any, target: _Target) -> None:
        self._graph = model.graph
        self._target = target
        self._opset = _opset(model)
        _hoist_constants(self._graph)
        self._types = _float_names(self._graph)
        self._weights = {tensor.name: tensor for tensor in self._graph.initializer}
        self._ports = [self._ports_of(node) for node in self._graph.node]
        self._full = self._wanted_in_fp32()
        self._halves: dict[str, str] = {}
        self._nodes: list[Any] = []

    def run(self) -> None:
        for node, ports in zip(self._graph.node, self._ports, strict=True):
            for position in sorted(ports.inputs):
                node.input[position] = self._half(node.input[position])
            self._nodes.append(node)
            for position in sorted(ports.outputs):
                self._rename_output(node, position)
        nodes = list(self._nodes)
        weights = [t for t in self._graph.initializer if t.name in self._full or self._is_alive(t)]
        del self._graph.node[:], self._graph.initializer[:], self._graph.value_info[:]
        self._graph.node.extend(nodes)
        self._graph.initializer.extend(weights)

    def _is_alive(self, tensor: Any) -> bool:
        """Whether a weight was never converted, and so must stay."""
        return tensor.name not in self._halves

    def _wanted_in_fp32(self) -> set[str]:
        """The names that somebody reads as fp32: kept nodes, subgraphs, the caller."""
        wanted = {value.name for value in self._graph.output}
        wanted |= {value.name for value in self._graph.input}
        for node, ports in zip(self._graph.node, self._ports, strict=True):
            wanted |= {name for n, name in enumerate(node.input) if n not in ports.inputs}
            for graph in _subgraphs(node):
                wanted |= set(_names_read(graph))
        return wanted

    def _half(self, name: str) -> str:
        """The name of a value in half precision, made where it is first asked for."""
        if name not in self._halves:
            half = self._halves[name] = name + self._target.suffix
            if name in self._weights:
                self._graph.initializer.append(
                    _half_weight(self._weights[name], half, self._target)
                )
            else:
                self._nodes.append(_cast(name, half, self._target.element_type))
        return self._halves[name]

    def _rename_output(self, node: Any, position: int) -> None:
        from onnx import TensorProto

        name = node.output[position]
        node.output[position] = self._halves[name] = name + self._target.suffix
        if name in self._full:
            self._nodes.append(_cast(node.output[position], name, TensorProto.FLOAT))

    def _ports_of(self, node: Any) -> _Ports:
        """Which of a node's tensors its operator lets be in half precision."""
        import onnx

        own = node.domain in ("", "ai.onnx") and node.op_type not in KEPT
        if not own or any(_subgraphs(node)):
            return _Ports()
        try:
            schema = onnx.defs.get_schema(node.op_type, self._opset, "")
        except onnx.defs.SchemaError:
            return _Ports()
        allowed = {
            constraint.type_param_str
            for constraint in schema.type_constraints
            if self._target.constraint in constraint.allowed_type_strs
        }
        inputs = dict(self._convertible(node.input, schema.inputs, allowed))
        outputs = dict(self._convertible(node.output, schema.outputs, set(inputs.values())))
        return _Ports(frozenset(inputs), frozenset(outputs))

    def _convertible(
        self, names: Iterable[str], formal: Any, allowed: set[str]
    ) -> Iterator[tuple[int, str]]:
        """Positions of fp32 tensors whose type variable is among the allowed ones, with it."""
        for position, name in enumerate(names):
            variable = formal[min(position, len(formal) - 1)].type_str
            if name in self._types and variable in allowed:
                yield position, variable


def _hoist_constants(graph: Any) -> None:
    """Make initializers of fp32 Constant nodes, so that they are converted like weights."""
    from onnx import TensorProto

    kept = []
    for node in graph.node:
        value = next((a.t for a in node.attribute if a.name == "value"), None)
        if node.op_type != "Constant" or value is None or value.data_type != TensorProto.FLOAT:
            kept.append(node)
            continue
        tensor = graph.initializer.add()
        tensor.CopyFrom(value)
        tensor.name = node.output[0]
    del graph.node[:]
    graph.node.extend(kept)


def _float_names(graph: Any) -> set[str]:
    from onnx import TensorProto

    values = (*graph.value_info, *graph.input, *graph.output)
    names = {v.name for v in values if v.type.tensor_type.elem_type == TensorProto.FLOAT}
    return names | {t.name for t in graph.initializer if t.data_type == TensorProto.FLOAT}


def _subgraphs(node: Any) -> Iterator[Any]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _names_read(graph: Any) -> Iterator[str]:
    for node in graph.node:
        yield from node.input
        for inner in _subgraphs(node):
            yield from _names_read(inner)
    yield from (value.name for value in graph.output)


def _cast(source: str, made: str, element_type: int) -> Any:
    from onnx import helper

    return helper.make_node("Cast", [source], [made], name=f"{made}_cast", to=element_type)


def _half_weight(tensor: Any, name: str, target: _Target) -> Any:
    import ml_dtypes
    import numpy as np
    from onnx import TensorProto, numpy_helper

    array = numpy_helper.to_array(tensor)
    if target.element_type == TensorProto.FLOAT16:
        return numpy_helper.from_array(_fitting_fp16(array).astype(np.float16), name)
    return numpy_helper.from_array(array.astype(ml_dtypes.bfloat16), name)


def _fitting_fp16(array: NumpyArray) -> NumpyArray:
    """Finite stays finite, and what is not zero stays so: an epsilon, a mask of -1e38."""
    import numpy as np

    finite = np.where(np.isfinite(array), np.clip(array, -_FP16_LARGEST, _FP16_LARGEST), array)
    tiny = (finite != 0) & (np.abs(finite) < _FP16_SMALLEST)
    return np.where(tiny, np.copysign(_FP16_SMALLEST, finite), finite)
