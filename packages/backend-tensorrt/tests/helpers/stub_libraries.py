"""The three libraries that TensorRT's bindings link, compiled without anything in them.

With them the real module imports, so that each class, method and enum can be looked at. A factory
returns null, and the bindings raise for it.
"""

from __future__ import annotations

import ctypes
import subprocess
from importlib.util import find_spec
from pathlib import Path

LIBRARIES = ("nvinfer", "nvinfer_plugin", "nvonnxparser")
SOURCE = """\
void *createInferBuilder_INTERNAL(void *logger, int version) { return 0; }
void *createInferRefitter_INTERNAL(void *engine, void *logger, int version) { return 0; }
void *createInferRuntime_INTERNAL(void *logger, int version) { return 0; }
void *createNvOnnxParser_INTERNAL(void *network, void *logger, int version) { return 0; }
void *createNvOnnxParserRefitter_INTERNAL(void *refitter, void *logger, int version) { return 0; }
void *getBuilderPluginRegistry(int capability) { return 0; }
void *getPluginRegistry(void) { return 0; }
int getNvOnnxParserVersion(void) { return 0; }
int initLibNvInferPlugins(void *logger, const char *name) { return 1; }
"""


def wanted_major() -> int:
    """The major version of the libraries that the installed bindings link."""
    spec = find_spec("tensorrt_bindings")
    assert spec is not None
    assert spec.origin is not None
    binary = (Path(spec.origin).parent / "tensorrt.so").read_bytes()
    return next(major for major in (10, 11) if f"libnvinfer.so.{major}\0".encode() in binary)


def compile_stubs(folder: Path) -> None:
    """Write the libraries into a folder."""
    source = folder / "stub.c"
    source.write_text(SOURCE)
    for name in LIBRARIES:
        file = f"lib{name}.so.{wanted_major()}"
        command = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{file}", "-o", folder / file, source]
        subprocess.run(command, check=True)


def load_stubs(folder: Path) -> None:
    """Load them, so that the bindings find libraries of these names in the process."""
    for name in LIBRARIES:
        ctypes.CDLL(str(folder / f"lib{name}.so.{wanted_major()}"))
