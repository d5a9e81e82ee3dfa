"""The hooks that Enginebay calls. They import the engine when they are called, not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import enginebay as eb
from enginebay_onnxruntime.dtypes import SUPPORTED
from enginebay_onnxruntime.params import OnnxruntimeParams

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
    """Describe this backend."""
    return eb.BackendInfo(
        name="onnxruntime",
        irs=("onnx",),
        params=OnnxruntimeParams,
        api_version=1,
        devices=("cpu", "cuda"),
        dtypes=SUPPORTED,
        precisions=("fp32", "fp16", "int8"),
        calibrated=("int8",),
        runtime_distributions=("onnxruntime>=1.22 | onnxruntime-gpu>=1.22",),
    )


@eb.hookimpl
def check_env(request: CheckEnvRequest[OnnxruntimeParams]) -> eb.EnvReport:
    """Check that one ONNX Runtime is installed, imports, and loads the wanted providers."""
    from enginebay_onnxruntime.environment import check_tier

    return check_tier(request)


@eb.hookimpl
def to_backend(request: ConvertRequest[OnnxruntimeParams]) -> list[Path]:
    """Write the ``.onnx`` file that the session will load."""
    from enginebay_onnxruntime.convert import convert

    return convert(request)


@eb.hookimpl
def quantizable_nodes(request: ConvertRequest[OnnxruntimeParams]) -> dict[str, str]:
    """Return the nodes that int8 puts Q/DQ nodes around."""
    from enginebay_onnxruntime.quantize import quantizable_nodes as listed

    return listed(request.ir.path)


@eb.hookimpl
def unsupported_operators(request: ConvertRequest[OnnxruntimeParams]) -> dict[str, str]:
    """Return what the engine lacks for a model."""
    from enginebay_onnxruntime.preview import unsupported_operators as listed

    return listed(request)


@eb.hookimpl
def build_wrapper(request: WrapperRequest[OnnxruntimeParams]) -> eb.Wrapper:
    """Create the session."""
    from enginebay_onnxruntime.wrapper import load

    return load(request)


@eb.hookimpl
def time_layers(request: LayersRequest[OnnxruntimeParams]) -> list[TimedLayer]:
    """Time the nodes of the session's graph."""
    from enginebay_onnxruntime.layers import time_layers as timed

    return timed(request)


@eb.hookimpl
def rewriters(request: RewritersRequest) -> eb.RewriterSet:  # noqa: ARG001  # they choose by themselves
    """Return the rewriters for what ONNX Runtime has no kernel for."""
    from enginebay_onnxruntime.rewriters import rewriters as declared

    return declared
