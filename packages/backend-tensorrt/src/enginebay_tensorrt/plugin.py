"""The hooks of ``tensorrt``. Each hook imports the engine only when it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import enginebay as eb
from enginebay_tensorrt.dtypes import SUPPORTED
from enginebay_tensorrt.params import TensorrtParams
from enginebay_tensorrt.products import LACKING, TENSORRT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from enginebay.hooks import (
        BindingRequest,
        BuiltFor,
        CheckEnvRequest,
        ConvertRequest,
        LayersRequest,
        RewritersRequest,
        TimedLayer,
        WrapperRequest,
    )
    from enginebay_tensorrt.params import Params


@eb.hookimpl
def backend_info() -> eb.BackendInfo:
    """Return the backend's name, parameters and capabilities."""
    return eb.BackendInfo(
        name=TENSORRT.backend,
        irs=("onnx",),
        params=TensorrtParams,
        api_version=1,
        devices=("cuda",),
        dtypes=SUPPORTED,
        calibrated=("int8", "fp8"),
        precisions=("fp32", "fp16", "bf16", "int8", "fp8"),
        runtime_distributions=TENSORRT.requirements(),
        lacking=LACKING,
    )


@eb.hookimpl
def check_env(request: CheckEnvRequest[Params]) -> eb.EnvReport:
    """Check that TensorRT is completely installed, and that driver and GPU are supported."""
    from enginebay_tensorrt.environment import check_tier

    return check_tier(request)


@eb.hookimpl
def to_backend(request: ConvertRequest[Params]) -> list[Path]:
    """Build the engine, and return the paths of the artifact's model files."""
    from enginebay_tensorrt.convert import convert

    return convert(request)


@eb.hookimpl
def quantizable_nodes(request: ConvertRequest[Params]) -> dict[str, str]:
    """Return the operators, by node name, that precisions int8 and fp8 put Q/DQ nodes around."""
    from enginebay_tensorrt import quantize

    return quantize.quantizable_nodes(request.ir.path)


@eb.hookimpl
def unsupported_operators(request: ConvertRequest[Params]) -> dict[str, str]:
    """Return the error of TensorRT's parser for each rejected node, by node name."""
    from enginebay_tensorrt import preview

    return preview.unsupported_operators(request)


@eb.hookimpl
def build_wrapper(request: WrapperRequest[Params]) -> eb.Wrapper:
    """Return a wrapper that runs the engine on a GPU.

    In a simulation, the wrapper runs the engine's ONNX graph on ONNX Runtime instead.
    """
    if request.simulation is not None:
        from enginebay_tensorrt.simulation import GraphWrapper

        return GraphWrapper(request, request.simulation)
    from enginebay_tensorrt.wrapper import TensorrtWrapper

    return TensorrtWrapper.from_request(request)


@eb.hookimpl
def bound_to(request: BindingRequest[Params]) -> Mapping[str, str]:
    """Return the TensorRT version and the GPU that an engine requires."""
    from enginebay_tensorrt import portability

    return portability.bound_to(request.params)


@eb.hookimpl
def built_for(request: BindingRequest[Params]) -> BuiltFor | None:
    """Return the GPUs that an engine is built for; None if the engine runs on this GPU only."""
    from enginebay_tensorrt import portability

    return portability.built_for(request.params)


@eb.hookimpl
def time_layers(request: LayersRequest[Params]) -> list[TimedLayer]:
    """Return the time of each layer, from TensorRT's profiler."""
    from enginebay_tensorrt import layers

    return layers.time_layers(request)


@eb.hookimpl
def rewriters(request: RewritersRequest) -> eb.RewriterSet:  # noqa: ARG001  # the same for every request
    """Return the rewriters for operators that TensorRT's parser rejects."""
    from enginebay_tensorrt.rewriters import rewriters as declared

    return declared
