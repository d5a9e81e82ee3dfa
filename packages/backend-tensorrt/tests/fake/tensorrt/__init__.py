"""TensorRT's name for TensorRT for RTX, whose API is that of TensorRT 11.

TensorRT's own libraries cannot be installed from PyPI. What its backend has in common with the one
for RTX is tested here under its name; what differs is tested against the names of its real bindings
in ``test_contract.py``.
"""

from tensorrt_rtx import *  # noqa: F403  # all of it, as it is
from tensorrt_rtx import (  # noqa: F401  # what the star leaves out
    Builder,
    OnnxParser,
    OnnxParserRefitter,
    Refitter,
    Runtime,
    __version__,
    get_plugin_registry,
)
