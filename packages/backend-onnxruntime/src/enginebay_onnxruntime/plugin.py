"""The hooks of ``onnxruntime``. Each hook imports the engine only when it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import enginebay as eb
from enginebay_onnxruntime.dtypes import SUPPORTED
from enginebay_onnxruntime.params import OnnxruntimeParams

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from enginebay.hooks import (
        BindingRequest,
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
        name="onnxruntime",
        irs=("onnx",),
        params=OnnxruntimeParams,
        api_version=1,
        devices=("cpu", "cuda", "npu", "gpu"),
        dtypes=SUPPORTED,
        precisions=("fp32", "fp16", "int8"),
        calibrated=("int8",),
        runtime_distributions=("onnxruntime>=1.22 | onnxruntime-gpu>=1.22",),
    )


@eb.hookimpl
def check_env(request: CheckEnvRequest[OnnxruntimeParams]) -> eb.EnvReport:
    """Check that exactly one ONNX Runtime is installed, and that it has the requested providers."""
    from enginebay_onnxruntime.environment import check_tier

    return check_tier(request)


@eb.hookimpl
def to_backend(request: ConvertRequest[OnnxruntimeParams]) -> list[Path]:
    """Write the ``.onnx`` file that the session will load; return the paths of all new files."""
    from enginebay_onnxruntime.convert import convert

    return convert(request)


@eb.hookimpl
def quantizable_nodes(request: ConvertRequest[OnnxruntimeParams]) -> dict[str, str]:
    """Return the operators, by node name, that precision int8 puts Q/DQ nodes around."""
    from enginebay_onnxruntime import quantize

    return quantize.quantizable_nodes(request.ir.path)


@eb.hookimpl
def unsupported_operators(request: ConvertRequest[OnnxruntimeParams]) -> dict[str, str]:
    """Return the reason for each unsupported node of a model, by node name."""
    from enginebay_onnxruntime import preview

    return preview.unsupported_operators(request)


@eb.hookimpl
def bound_to(request: BindingRequest[OnnxruntimeParams]) -> Mapping[str, str]:
    """Return the versions that a model compiled for a provider depends on."""
    if not request.params.compiled:
        return {}
    from enginebay_onnxruntime.compiled import list_versions

    return list_versions(request.params)


@eb.hookimpl
def build_wrapper(request: WrapperRequest[OnnxruntimeParams]) -> eb.Wrapper:
    """Create the session, and return a wrapper that runs it."""
    if request.params.sizes:
        from enginebay_onnxruntime.sizes import load_sized

        return load_sized(request)
    if request.params.cuda_graph or request.params.reuse_outputs:
        from enginebay_onnxruntime.buffers import load_buffered

        return load_buffered(request)
    from enginebay_onnxruntime.wrapper import load_wrapper

    return load_wrapper(request)


@eb.hookimpl
def time_layers(request: LayersRequest[OnnxruntimeParams]) -> list[TimedLayer]:
    """Return the time of each node of the session's graph."""
    from enginebay_onnxruntime import layers

    return layers.time_layers(request)


@eb.hookimpl
def rewriters(request: RewritersRequest) -> eb.RewriterSet:  # noqa: ARG001  # the same for every request
    """Return the rewriters for operators without a kernel in ONNX Runtime."""
    from enginebay_onnxruntime.rewriters import rewriters as declared

    return declared
