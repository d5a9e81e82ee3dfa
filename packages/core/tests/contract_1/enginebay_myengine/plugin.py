"""The hooks that Enginebay calls. This module imports no engine: the hooks import it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import enginebay as eb

from enginebay_myengine.params import MyengineParams

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay.hooks import CheckEnvRequest, ConvertRequest, RewritersRequest, WrapperRequest


@eb.hookimpl
def backend_info() -> eb.BackendInfo:
    """Return the backend's name and capabilities, which the conformance tests check."""
    return eb.BackendInfo(
        name="myengine",
        irs=("onnx",),
        params=MyengineParams,
        api_version=1,
        devices=("cpu",),
        dtypes=("float16", "float32", "float64", "int32", "int64", "bool"),
        precisions=("fp32",),
        dynamic_shapes=True,
        runtime_distributions=("onnx>=1.21",),
    )


@eb.hookimpl
def check_env(request: CheckEnvRequest[MyengineParams]) -> eb.EnvReport:
    """Run the plugin's checks of one check-env stage (tier)."""
    from enginebay_myengine.environment import check_tier

    return check_tier(request)


@eb.hookimpl
def to_backend(request: ConvertRequest[MyengineParams]) -> list[Path]:
    """Write the engine's files into the work folder, and return their paths."""
    from enginebay_myengine.convert import convert

    return convert(request)


@eb.hookimpl
def build_wrapper(request: WrapperRequest[MyengineParams]) -> eb.Wrapper:
    """Load the engine's files, and return a wrapper of the engine."""
    from enginebay_myengine.wrapper import MyengineWrapper

    return MyengineWrapper(request)


@eb.hookimpl
def rewriters(request: RewritersRequest) -> eb.RewriterSet:
    """Return rewriters for operators that the engine does not support."""
    from enginebay_myengine.rewriters import rewriters as declared

    return declared
