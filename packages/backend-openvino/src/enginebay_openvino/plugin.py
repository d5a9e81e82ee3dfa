"""The hooks that Enginebay calls. OpenVINO is imported only by the hooks that use OpenVINO."""

from __future__ import annotations

from typing import TYPE_CHECKING

import enginebay as eb
from enginebay_openvino.params import OpenvinoParams

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
        name="openvino",
        # ONNX first: reading it needs no torch, and it has the names of inputs and outputs.
        irs=("onnx", "torchscript", "exported_program"),
        params=OpenvinoParams,
        api_version=1,
        devices=("cpu", "gpu", "npu"),
        dtypes=(
            *("float32", "float16", "bfloat16", "float64", "bool"),
            *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            *("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"),
        ),
        calibrated=("int8",),
        precisions=("fp32", "fp16", "bf16", "int8"),
        runtime_distributions=("openvino>=2026.4",),
        # OpenVINO lacks ONNX's Det. It cannot convert an Einsum of constants with a permuted
        # result, nor one of three operands with an ellipsis. It ignores antialias.
        lacking=frozenset(
            (
                *("aten.linalg_det", "aten._linalg_det", "aten.einsum"),
                *("aten._upsample_bilinear2d_aa", "aten._upsample_bicubic2d_aa"),
            )
        ),
    )


@eb.hookimpl
def check_env(request: CheckEnvRequest[OpenvinoParams]) -> eb.EnvReport:
    """Report whether one OpenVINO is installed, can be imported, and finds the device."""
    from enginebay_openvino.environment import check_tier

    return check_tier(request)


@eb.hookimpl
def to_backend(request: ConvertRequest[OpenvinoParams]) -> list[Path]:
    """Write the ``.xml`` and ``.bin`` files, and return the paths."""
    from enginebay_openvino.convert import convert

    return convert(request)


@eb.hookimpl
def quantizable_nodes(request: ConvertRequest[OpenvinoParams]) -> dict[str, str]:
    """Return the operators, by node name, of the nodes whose inputs NNCF quantises."""
    from enginebay_openvino import convert

    return convert.quantizable_nodes(request)


@eb.hookimpl
def unsupported_operators(request: ConvertRequest[OpenvinoParams]) -> dict[str, str]:
    """Return the names of the nodes that OpenVINO does not support, each with the reason."""
    from enginebay_openvino import preview

    return preview.unsupported_operators(request)


@eb.hookimpl
def build_wrapper(request: WrapperRequest[OpenvinoParams]) -> eb.Wrapper:
    """Compile the model for the device, and return a wrapper that runs the model."""
    from enginebay_openvino.wrapper import OpenvinoWrapper

    return OpenvinoWrapper.from_request(request)


@eb.hookimpl
def time_layers(request: LayersRequest[OpenvinoParams]) -> list[TimedLayer]:
    """Return the time of each layer, measured by OpenVINO's performance counters."""
    from enginebay_openvino import layers

    return layers.time_layers(request)


@eb.hookimpl
def rewriters(request: RewritersRequest) -> eb.RewriterSet:  # noqa: ARG001  # the same for every IR
    """Return the rewriters for operators that OpenVINO does not support."""
    from enginebay_openvino.rewriters import rewriters as declared

    return declared
