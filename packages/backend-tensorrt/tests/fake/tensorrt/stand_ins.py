"""Stand-ins for the objects that TensorRT's libraries make; ONNX Runtime computes for them.

They are as strict as TensorRT is documented to be: a call without addresses, with shapes outside
the profile, with settings of another version, or on freed memory fails.
"""

from __future__ import annotations

import fake_cuda
import tensorrt_bindings as trt

from tensorrt.builder import Builder, Config, Network, OnnxParser, Profile, Tensor, TimingCache
from tensorrt.running import (
    CudaEngine,
    ExecutionContext,
    OnnxParserRefitter,
    PluginRegistry,
    Refitter,
    Runtime,
    get_plugin_registry,
)
from tensorrt.shared import CONFIGS, FAULTS, LOG, ParserError

__all__ = ["CONFIGS", "FAULTS", "LOG", "STANDS_FOR", "get_plugin_registry", "reset"]


def reset() -> None:
    """Forget everything that happened."""
    LOG.clear()
    CONFIGS.clear()
    FAULTS.clear()
    fake_cuda.reset()


#: Which real class each one stands for.
STANDS_FOR = (
    (Tensor, trt.ITensor),
    (Network, trt.INetworkDefinition),
    (Profile, trt.IOptimizationProfile),
    (TimingCache, trt.ITimingCache),
    (Config, trt.IBuilderConfig),
    (Builder, trt.Builder),
    (ParserError, trt.ParserError),
    (OnnxParser, trt.OnnxParser),
    (Runtime, trt.Runtime),
    (CudaEngine, trt.ICudaEngine),
    (ExecutionContext, trt.IExecutionContext),
    (Refitter, trt.Refitter),
    (OnnxParserRefitter, trt.OnnxParserRefitter),
    (PluginRegistry, trt.IPluginRegistry),
)
