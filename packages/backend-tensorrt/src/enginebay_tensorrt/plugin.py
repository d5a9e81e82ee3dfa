"""The hooks of ``tensorrt``. They import the engine when they are called, not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import enginebay as eb
from enginebay_tensorrt.dtypes import SUPPORTED
from enginebay_tensorrt.params import TensorrtParams
from enginebay_tensorrt.products import TENSORRT

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
    """Describe this backend."""
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
    )


@eb.hookimpl
def check_env(request: CheckEnvRequest[Params]) -> eb.EnvReport:
    """Check that one TensorRT is installed whole, and that a driver and a GPU fit it."""
    from enginebay_tensorrt.environment import check_tier

    return check_tier(request)


@eb.hookimpl
def to_backend(request: ConvertRequest[Params]) -> list[Path]:
    """Build the engine."""
    from enginebay_tensorrt.convert import convert

    return convert(request)


@eb.hookimpl
def quantizable_nodes(request: ConvertRequest[Params]) -> dict[str, str]:
    """Return the nodes that int8 and fp8 put Q/DQ nodes around."""
    from enginebay_tensorrt.quantize import quantizable_nodes as listed

    return listed(request.ir.path)


@eb.hookimpl
def unsupported_operators(request: ConvertRequest[Params]) -> dict[str, str]:
    """Return what the engine lacks for a model."""
    from enginebay_tensorrt.preview import unsupported_operators as listed

    return listed(request)


@eb.hookimpl
def build_wrapper(request: WrapperRequest[Params]) -> eb.Wrapper:
    """Deserialize the engine on its device, or run its graph on ONNX Runtime."""
    if request.simulation is not None:
        from enginebay_tensorrt.simulation import GraphWrapper

        return GraphWrapper(request, request.simulation)
    from enginebay_tensorrt.wrapper import TensorrtWrapper

    return TensorrtWrapper.from_request(request)


@eb.hookimpl
def bound_to(request: BindingRequest[Params]) -> Mapping[str, str]:
    """Return the TensorRT and the GPU that an engine needs."""
    from enginebay_tensorrt.portability import bound_to as facts

    return facts(request.params)


@eb.hookimpl
def built_for(request: BindingRequest[Params]) -> BuiltFor | None:
    """Return the GPUs that an engine is for, where they are not this machine's alone."""
    from enginebay_tensorrt.portability import built_for as machines

    return machines(request.params)


@eb.hookimpl
def time_layers(request: LayersRequest[Params]) -> list[TimedLayer]:
    """Time the layers with TensorRT's profiler."""
    from enginebay_tensorrt.layers import time_layers as timed

    return timed(request)


@eb.hookimpl
def rewriters(request: RewritersRequest) -> eb.RewriterSet:  # noqa: ARG001  # they choose by themselves
    """Return the rewriters for what TensorRT's parser refuses."""
    from enginebay_tensorrt.rewriters import rewriters as declared

    return declared
