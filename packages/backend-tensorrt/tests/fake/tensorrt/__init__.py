"""TensorRT without TensorRT: NVIDIA's real bindings, and stand-ins for what its libraries make.

Enums, loggers, monitors and allocators are the bindings' own. What only the libraries
can make (builders, networks, engines, contexts) are the classes of ``stand_ins``, whose methods
and arguments are checked against the real ones. ``ENGINEBAY_TENSORRT_STUBS`` names the folder with
the stub libraries.
"""

import os
from pathlib import Path

import fake_cuda
import stub_libraries

stub_libraries.load_stubs(Path(os.environ["ENGINEBAY_TENSORRT_STUBS"]))

import tensorrt_bindings as real  # noqa: E402, F401
from tensorrt_bindings import *  # noqa: E402, F403
from tensorrt_bindings import __version__  # noqa: E402, F401

fake_cuda.install()

from tensorrt.stand_ins import (  # noqa: E402, F401
    Builder,
    OnnxParser,
    OnnxParserRefitter,
    Refitter,
    Runtime,
    get_plugin_registry,
)
