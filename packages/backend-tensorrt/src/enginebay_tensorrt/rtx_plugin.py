"""The hooks of ``tensorrt-rtx``: those of ``tensorrt`` with the parameters of TensorRT for RTX."""

from __future__ import annotations

import enginebay as eb
from enginebay_tensorrt.dtypes import SUPPORTED
from enginebay_tensorrt.params import TensorrtRtxParams
from enginebay_tensorrt.plugin import (
    bound_to,
    build_wrapper,
    built_for,
    check_env,
    quantizable_nodes,
    rewriters,
    time_layers,
    to_backend,
    unsupported_operators,
)
from enginebay_tensorrt.products import LACKING, TENSORRT_RTX

#: The plugin manager finds the hooks of both backends by these names.
__all__ = [
    "backend_info",
    "bound_to",
    "build_wrapper",
    "built_for",
    "check_env",
    "quantizable_nodes",
    "rewriters",
    "time_layers",
    "to_backend",
    "unsupported_operators",
]


@eb.hookimpl
def backend_info() -> eb.BackendInfo:
    """Return the backend's name, parameters and capabilities."""
    return eb.BackendInfo(
        name=TENSORRT_RTX.backend,
        irs=("onnx",),
        params=TensorrtRtxParams,
        api_version=1,
        devices=("cuda",),
        dtypes=SUPPORTED,
        calibrated=("int8", "fp8"),
        precisions=("fp32", "fp16", "bf16", "int8", "fp8"),
        runtime_distributions=TENSORRT_RTX.requirements(),
        lacking=LACKING,
    )
