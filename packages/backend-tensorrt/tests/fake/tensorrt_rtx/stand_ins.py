"""Stand-ins for what needs a GPU; ONNX Runtime computes for them.

They are as strict as TensorRT is documented to be: a call without addresses, with shapes outside
the profile, with settings of another version, or on freed memory fails.
"""

from __future__ import annotations

import fake_cuda
import tensorrt_rtx_bindings as trt

from tensorrt_rtx.recording import Builder, OnnxParser, graph_of
from tensorrt_rtx.running import (
    CudaEngine,
    ExecutionContext,
    OnnxParserRefitter,
    PluginRegistry,
    Refitter,
    Runtime,
)
from tensorrt_rtx.shared import CONFIGS, FAULTS, LOG, PROFILES, ParserError

__all__ = ["CONFIGS", "FAULTS", "LOG", "PROFILES", "STANDS_FOR", "graph_of", "reset"]


def reset() -> None:
    """Forget everything that happened."""
    LOG.clear()
    CONFIGS.clear()
    PROFILES.clear()
    FAULTS.clear()
    fake_cuda.reset()


#: The real class that each stand-in replaces.
STANDS_FOR = (
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
