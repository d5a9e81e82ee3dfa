"""Finds unsupported nodes of a model by loading a separate model of each node."""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING

from enginebay_onnxruntime.custom_ops import find_libraries, register_libraries
from enginebay_onnxruntime.session import import_onnxruntime

if TYPE_CHECKING:
    from collections.abc import Mapping

    import onnx
    import onnxruntime

    from enginebay.hooks import ConvertRequest
    from enginebay_onnxruntime.params import OnnxruntimeParams

#: ONNX Runtime's messages for a missing operator, or a missing kernel for the dtypes. Other errors
#: of a node that is loaded alone may not occur in its model.
_LACKS_OPERATOR = re.compile(
    r"is not a registered function/op|No Op registered for|Could not find an implementation for"
)
_FATAL = 4  # of OrtLoggingLevel
#: Constants up to this many elements stay constants, which some operators require.
_MAX_CONSTANT_ELEMENTS = 64


def unsupported_operators(request: ConvertRequest[OnnxruntimeParams]) -> dict[str, str]:
    """Return the reason for each node that ONNX Runtime cannot run, by node name.

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
    options = _make_options(request.params)
    reasons: dict[bytes, str] = {}
    unsupported = {}
    for node in model.graph.node:
        if (node.domain, node.op_type) in local or any(a.HasField("g") for a in node.attribute):
            continue  # a function of other nodes, or a subgraph that reads outer values
        alone = _isolate_node(model, node, values, constants)
        key = alone.SerializeToString(deterministic=True)
        if key not in reasons:
            reasons[key] = _find_reason(key, options)
        if reasons[key]:
            unsupported[node.name] = reasons[key]
    return unsupported


def _make_options(params: OnnxruntimeParams) -> onnxruntime.SessionOptions:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    register_libraries(find_libraries(params.custom_ops), options)
    return options


def _isolate_node(
    model: onnx.ModelProto,
    node: onnx.NodeProto,
    values: Mapping[str, onnx.ValueInfoProto],
    constants: Mapping[str, onnx.TensorProto],
) -> onnx.ModelProto:
    """Return a model that contains only ``node``.

    Names are normalised: nodes that differ only in names give equal models.
    """
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
    inputs, initializers = [], []
    for name, new_name in names.items():
        tensor = constants.get(name)
        if tensor is not None and prod(tensor.dims) <= _MAX_CONSTANT_ELEMENTS:
            initializers.append(_copy_renamed(tensor, new_name))
        elif tensor is not None:
            inputs.append(
                helper.make_tensor_value_info(new_name, tensor.data_type, list(tensor.dims))
            )
        elif name in values:
            inputs.append(_copy_renamed(values[name], new_name))
        else:  # the output of an operator that onnx does not know
            inputs.append(helper.make_tensor_value_info(new_name, onnx.TensorProto.FLOAT, None))
    outputs = [onnx.ValueInfoProto(name=name) for name in copy.output if name]
    graph = helper.make_graph([copy], "alone", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def _copy_renamed(
    proto: onnx.TensorProto | onnx.ValueInfoProto, name: str
) -> onnx.TensorProto | onnx.ValueInfoProto:
    renamed = type(proto)()
    renamed.CopyFrom(proto)
    renamed.name = name
    return renamed


def _find_reason(model: bytes, options: onnxruntime.SessionOptions) -> str:
    """Return why a model's only node is not supported; an empty string if it is supported."""
    import onnxruntime

    try:
        onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as err:  # noqa: BLE001  # each kind of error has its own class
        text = " ".join(str(err).split())
        if _LACKS_OPERATOR.search(text):
            kernel = "Could not find an implementation" in text
            return f"ONNX Runtime has no {'kernel for these dtypes' if kernel else 'such operator'}"
    return ""
