"""The installed TensorRT, imported once, and what depends on its version.

Modules that need the engine import :data:`trt` from here. Hooks import those modules when they are
called: importing this one raises where there is no TensorRT.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from enginebay.errors import MissingDependencyError

#: What to type where TensorRT is missing. Its libraries come from NVIDIA's own package index.
INSTALL = "pip install 'enginebay-tensorrt[cu13]', or [cu12] for a driver of CUDA 12"

#: NVIDIA's wheels and archives have ``tensorrt``; its wheels keep the bindings in the other one.
MODULES = ("tensorrt", "tensorrt_bindings")


def module_name() -> str:
    """Return the name of the module that is installed.

    Raises:
        MissingDependencyError: Neither is.
    """
    for name in MODULES:
        if find_spec(name) is not None:
            return name
    raise MissingDependencyError("TensorRT's Python bindings are not installed", hint=INSTALL)


def _import() -> Any:
    name = module_name()
    try:
        return import_module(name)
    except ImportError as err:
        raise MissingDependencyError(
            f"TensorRT's Python bindings are installed and do not import: {err}",
            hint="enginebay check-env tensorrt",
        ) from err


trt: Any = _import()

#: True for TensorRT 10, where flags can leave the choice of precision to the builder. Since 11
#: every network computes as its tensors are typed.
HAS_PRECISION_FLAGS: bool = hasattr(trt.BuilderFlag, "FP16")
