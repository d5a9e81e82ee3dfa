"""The loopback backend with 8-bit weights: one scale for each weight, from its largest value.

An outlier among a layer's weights makes the layer's error large, as in a real engine. Parameters
make the engine of a layer crash or return NaN, if this layer computes in 8 bits.
"""

from __future__ import annotations

import os

import numpy as np
import onnx

import enginebay as eb
from enginebay.errors import ConversionError
from enginebay_testing import loopback


class EightBitsParams(loopback.LoopbackParams):
    """Parameters of the backend.

    Args:
        crashes (str): The name of a node; the engine crashes if this node is in 8 bits.
        spoils (str): The name of a node; the engine returns NaN if this node is in 8 bits.
        refuses (str): The name of a node that the converter refuses in 8 bits.
        nothing (bool): No node can compute in 8 bits.
    """

    precision: str = "int8"
    crashes: str = ""
    spoils: str = ""
    refuses: str = ""
    nothing: bool = False


@eb.hookimpl
def backend_info():
    return eb.BackendInfo(
        name="eightbits",
        irs=("onnx",),
        params=EightBitsParams,
        precisions=("fp32", "int8"),
        calibrated=("int8",),
        runtime_distributions=("onnx>=1.21",),
    )


check_env = loopback.check_env


@eb.hookimpl
def quantizable_nodes(request):
    if request.params.nothing:
        return {}
    nodes = onnx.load(request.ir.path).graph.node
    return {node.name: node.op_type for node in nodes if node.op_type == "Gemm"}


@eb.hookimpl
def to_backend(request):
    model = onnx.load(request.ir.path)
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if (
            request.params.precision != "int8"
            or node.op_type != "Gemm"
            or node.name in request.keep
        ):
            continue
        if node.name == request.params.refuses:
            raise ConversionError(f"node '{node.name}' cannot be calibrated")
        tensor = weights[node.input[1]]
        rounded = round_weight(onnx.numpy_helper.to_array(tensor))
        if node.name == request.params.spoils:
            rounded[:] = np.nan
        tensor.CopyFrom(onnx.numpy_helper.from_array(rounded, tensor.name))
        node.doc_string = "8 bits"
    path = request.work_dir / "model.onnx"
    onnx.save(model, path)
    return [path]


def round_weight(weight):
    """Round a weight to 255 steps between its largest value and the negative of it."""
    step = np.abs(weight).max() / 127
    return (np.round(weight / step) * step).astype(weight.dtype)


@eb.hookimpl
def build_wrapper(request):
    nodes = onnx.load(request.directory / request.files[0]).graph.node
    if request.params.crashes in [node.name for node in nodes if node.doc_string]:
        os._exit(9)
    return EightBitsWrapper(request)


class EightBitsWrapper(loopback.LoopbackWrapper):
    """The loopback's, which says in which precision it computes."""

    def __init__(self, request):
        super().__init__(request)
        self._precision = request.params.precision

    @property
    def receipt(self):
        usual = super().receipt
        return eb.Receipt(engine=usual.engine, device="cpu", precision=self._precision)
