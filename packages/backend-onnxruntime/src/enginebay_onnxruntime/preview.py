"""Which nodes of a model ONNX Runtime lacks: each is loaded in a model of its own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from enginebay_onnxruntime.custom_ops import given_libraries, register
from enginebay_onnxruntime.session import import_onnxruntime

if TYPE_CHECKING:
    import onnx

    from enginebay.hooks import ConvertRequest
    from enginebay_onnxruntime.params import OnnxruntimeParams

#: How ONNX Runtime says that it lacks an operator, or a kernel for these dtypes. Whatever else it
#: says about a node that is taken out of its model says nothing about the model.
_LACKS = re.compile(
    r"is not a registered function/op|No Op registered for|Could not find an implementation for"
)
_FATAL = 4  # of OrtLoggingLevel
#: Constants up to this many elements stay what they are: some operators want constants.
_SMALL = 64


def unsupported_operators(request: ConvertRequest[OnnxruntimeParams]) -> dict[str, str]:
    """Return the nodes that ONNX Runtime has no operator or no kernel for.

    Raises:
        MissingDependencyError: ONNX Runtime does not import.
        ConversionError: A custom-op library cannot be loaded.
    """
    import onnx

    import_onnxruntime()
    model = onnx.shape_inference.infer_shapes(onnx.load(request.ir.path))
    values = {value.name: value for value in (*model.graph.input, *model.graph.value_info)}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    local = {(function.domain, function.name) for function in model.functions}
    options = _options(request.params)
    answers: dict[bytes, str] = {}
    found = {}
    for node in model.graph.node:
        if (node.domain, node.op_type) in local or any(a.HasField("g") for a in node.attribute):
            continue  # made of other nodes, or with graphs that read values around them
        alone = _alone(model, node, values, constants)
        key = alone.SerializeToString(deterministic=True)
        if key not in answers:
            answers[key] = _why_not(key, options)
        if answers[key]:
            found[node.name] = answers[key]
    return found


def _options(params: OnnxruntimeParams) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    register(given_libraries(params.custom_ops), options)
    return options


def _alone(model: Any, node: Any, values: Any, constants: Any) -> onnx.ModelProto:
    """A model of this node alone, with names of its own so that equal nodes are equal bytes."""
    import onnx
    from onnx import helper

    names = {name: f"i{n}" for n, name in enumerate(dict.fromkeys(filter(None, node.input)))}
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.name = "node"
    del copy.input[:], copy.output[:], copy.metadata_props[:]
    copy.doc_string = ""
    copy.input.extend(names.get(name, "") for name in node.input)
    copy.output.extend(f"o{n}" if name else "" for n, name in enumerate(node.output))
    inputs, kept = [], []
    for name, own in names.items():
        tensor = constants.get(name)
        if tensor is not None and _size(tensor) <= _SMALL:
            kept.append(_renamed(tensor, own))
        elif tensor is not None:
            inputs.append(helper.make_tensor_value_info(own, tensor.data_type, list(tensor.dims)))
        elif name in values:
            inputs.append(_renamed(values[name], own))
        else:  # behind an operator that onnx does not know either
            inputs.append(helper.make_tensor_value_info(own, onnx.TensorProto.FLOAT, None))
    outputs = [onnx.ValueInfoProto(name=name) for name in copy.output if name]
    graph = helper.make_graph([copy], "alone", inputs, outputs, kept)
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def _renamed(proto: Any, name: str) -> Any:
    renamed = type(proto)()
    renamed.CopyFrom(proto)
    renamed.name = name
    return renamed


def _size(tensor: Any) -> int:
    size = 1
    for dim in tensor.dims:
        size *= dim
    return size


def _why_not(model: bytes, options: Any) -> str:
    import onnxruntime

    try:
        onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as err:  # noqa: BLE001  # each error of ONNX Runtime has a class of its own
        text = " ".join(str(err).split())
        if _LACKS.search(text):
            kernel = "Could not find an implementation" in text
            return f"ONNX Runtime has no {'kernel for these dtypes' if kernel else 'such operator'}"
    return ""
