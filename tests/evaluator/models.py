"""ONNX models of one case at an opset, and their outputs by ONNX Runtime and by the evaluator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx.defs import OpSchema, SchemaError, get_schema
from onnx.helper import (
    make_empty_tensor_value_info,
    make_graph,
    make_model,
    make_node,
    make_opsetid,
    make_tensor_value_info,
    np_dtype_to_tensor_dtype,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .cases import Case

OPSETS = range(7, 26)

#: Operators whose first input must be a constant, so that the size of the output is known.
_OF_CONSTANTS = ("HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix")


def versions(operator: str) -> list[int]:
    """Return an opset for each definition of an operator."""
    found: dict[int, int] = {}
    for opset in OPSETS:
        try:
            found.setdefault(get_schema(operator, opset, "").since_version, opset)
        except SchemaError:
            continue
    return list(found.values())


def build(case: Case, opset: int) -> tuple[onnx.ModelProto, dict[str, Any]] | None:
    """Return a case's model at an opset, and its input; None if it is not defined there."""
    schema = get_schema(case.operator, opset, "")
    slots, attributes = list(case.inputs), {}
    names = [each.name.lower() for each in schema.inputs]
    for name, value in case.options.items():
        if name in schema.attributes:
            if isinstance(value, list) and not value:
                return None
            attributes[name] = _as_attribute(value, schema.attributes[name].type)
            continue
        known = name if name in names else {"value": "constant_value"}.get(name, name)
        if known not in names or (isinstance(value, list) and not value):
            return None
        slots += [None] * (names.index(known) + 1 - len(slots))
        slots[names.index(known)] = np.float32(value) if _has_floats(value) else np.asarray(value)
    while slots and slots[-1] is None:
        slots.pop()
    if (
        len(slots) > schema.max_input
        or case.outputs > schema.max_output
        or [] in attributes.values()
    ):
        return None
    single = OpSchema.FormalParameterOption.Single
    for number, each in enumerate(schema.inputs[: len(slots)]):
        if slots[number] is None and each.option == single:
            slots[number] = np.float32([])
    arrays = {f"x{i}": np.asarray(each) for i, each in enumerate(slots) if each is not None}
    outputs = [f"y{i}" for i in range(case.outputs)]
    node = make_node(
        case.operator,
        [f"x{i}" if f"x{i}" in arrays else "" for i in range(len(slots))],
        outputs,
        **attributes,
    )
    given = {} if case.operator in _OF_CONSTANTS else {"x0": arrays.pop("x0")}
    graph = make_graph(
        [node],
        "graph",
        [
            make_tensor_value_info(name, np_dtype_to_tensor_dtype(each.dtype), each.shape)
            for name, each in given.items()
        ],
        [make_empty_tensor_value_info(name) for name in outputs],
        [onnx.numpy_helper.from_array(each, name) for name, each in arrays.items()],
    )
    model = make_model(graph, opset_imports=[make_opsetid("", opset)], ir_version=10)
    try:
        return onnx.shape_inference.infer_shapes(model, strict_mode=True), given
    except onnx.shape_inference.InferenceError:
        return None


def _has_floats(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, list) and isinstance(value[0], float))


def _as_attribute(value: Any, kind: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if kind == OpSchema.AttrType.FLOAT:
        return float(value)
    if kind == OpSchema.AttrType.INT:
        return int(value[0] if isinstance(value, list) else value)
    return value


def engine_outputs(model: onnx.ModelProto, inputs: dict[str, Any]) -> list[Any] | None:
    """Return ONNX Runtime's outputs without optimisations; None if it lacks the operator."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return list(session.run(None, inputs))
    except Exception:  # ONNX Runtime's errors have no common class
        return None


def differences(found: list[Any], wanted: list[Any]) -> Iterator[str]:
    """Describe how each output differs."""
    for left, right in zip(found, wanted, strict=True):
        if left.shape != right.shape:
            yield f"the shape is {left.shape}, not {right.shape}"
        elif left.dtype.kind in "fc":
            # ONNX Runtime's sums of a DFT are off by 1e-6 of the largest.
            noise = 1e-5 * np.abs(right[np.isfinite(right)]).max(initial=1)
            if not np.allclose(left, right, 1e-4, noise, equal_nan=True):
                yield f"off by {np.nanmax(np.abs(left - right)):.3g}"
        elif not (left == right).all():
            yield f"{(left != right).sum()} of {left.size} elements differ"
