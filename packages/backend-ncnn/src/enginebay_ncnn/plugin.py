"""The hooks of ``ncnn``. Each hook imports the engine only when it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import enginebay as eb
from enginebay_ncnn.params import NcnnParams

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay.hooks import (
        CheckEnvRequest,
        ConvertRequest,
        LayersRequest,
        RewritersRequest,
        TimedLayer,
        WrapperRequest,
    )


@eb.hookimpl
def backend_info() -> eb.BackendInfo:
    """Return the backend's name, parameters and capabilities."""
    return eb.BackendInfo(
        name="ncnn",
        irs=("torchscript", "onnx"),
        params=NcnnParams,
        api_version=1,
        devices=("cpu", "vulkan"),
        dtypes=("float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"),
        precisions=("fp32", "fp16", "int8"),
        calibrated=("int8",),
        runtime_distributions=("ncnn>=1.0.20261020", "pnnx>=20261020"),
    )


@eb.hookimpl
def check_env(request: CheckEnvRequest[NcnnParams]) -> eb.EnvReport:
    """Check that ncnn can be imported, that pnnx is installed, and that the device exists."""
    from enginebay_ncnn.environment import check_tier

    return check_tier(request)


@eb.hookimpl
def rewriters(request: RewritersRequest) -> eb.RewriterSet:
    """Return the lowerings of operators that ncnn does not support."""
    del request  # the same for every IR
    from enginebay_ncnn.lowerings import lowerings

    rewriter_set: eb.RewriterSet = lowerings
    return rewriter_set


@eb.hookimpl
def to_backend(request: ConvertRequest[NcnnParams]) -> list[Path]:
    """Write the network, the weights and the plan that maps tensors to blobs; return the paths."""
    from enginebay_ncnn.convert import convert

    return convert(request)


@eb.hookimpl
def quantizable_nodes(request: ConvertRequest[NcnnParams]) -> dict[str, str]:
    """Return the types, by layer name, of the layers that precision int8 computes in 8 bits."""
    from enginebay_ncnn import convert

    return convert.quantizable_nodes(request)


@eb.hookimpl
def time_layers(request: LayersRequest[NcnnParams]) -> list[TimedLayer]:
    """Return the time of each layer, measured by extracting the layers' outputs in order."""
    from enginebay_ncnn import layer_times

    return layer_times.time_layers(request)


@eb.hookimpl
def unsupported_operators(request: ConvertRequest[NcnnParams]) -> dict[str, str]:
    """Return the reason for each unsupported operator of a model, by operator name."""
    from enginebay_ncnn import preview

    return preview.unsupported_operators(request)


@eb.hookimpl
def build_wrapper(request: WrapperRequest[NcnnParams]) -> eb.Wrapper:
    """Load the network, and return a wrapper that runs it."""
    from enginebay_ncnn.wrapper import NcnnWrapper

    return NcnnWrapper.from_request(request)
