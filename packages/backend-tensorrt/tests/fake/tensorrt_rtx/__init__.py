"""TensorRT for RTX with its real parser and builder, and stand-ins for what needs a GPU.

Everything is NVIDIA's own, except the CUDA runtime (``fake_cuda``), and the engine with its
context (``running``). ``recording`` notes which graph a plan was built from, so that ONNX Runtime
can compute for it.
"""

import fake_cuda
from tensorrt_rtx_bindings import *  # noqa: F403
from tensorrt_rtx_bindings import __version__  # noqa: F401

fake_cuda.install()

from tensorrt_rtx.recording import Builder, OnnxParser  # noqa: E402, F401
from tensorrt_rtx.running import (  # noqa: E402, F401
    OnnxParserRefitter,
    Refitter,
    Runtime,
    get_plugin_registry,
)
