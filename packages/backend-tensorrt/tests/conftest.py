"""TensorRT for RTX, whose parser and builder need no GPU, and stand-ins for what needs one.

Most of these tests need TensorRT for RTX with its libraries. The tests of versions and products
also run with the bindings of TensorRT 10 and 11, over stub libraries that gcc compiles. ``nox -s
tensorrt`` installs everything, in an environment for each.
"""

from __future__ import annotations

import atexit
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TESTS = Path(__file__).parent
FAKE = TESTS / "fake"
#: Tests that need no TensorRT; they run anywhere.
BEFORE = (
    *("test_quantize.py", "test_tensorrt_rewriters.py", "test_tensorrt_params.py"),
    *("test_tensorrt_readme.py", "test_conformance.py"),
)
#: Tests of names, wheels and flags, for which the bindings of TensorRT 10 and 11 will do.
NAMES = ("test_contract.py", "test_flags.py", "test_check_env.py")
#: The backend that ``nox -s gpu`` runs: it and a GPU are here, and stand-ins are not used.
ON_GPU = os.environ.get("ENGINEBAY_GPU", "")
#: Not TensorRT: the same hooks under another name, and ONNX Runtime, which computes for them.
ON_STAND_INS = """
import msgspec
import enginebay as eb
from enginebay_tensorrt import rtx_plugin
from enginebay_tensorrt.rtx_plugin import *

@eb.hookimpl
def backend_info():
    info = rtx_plugin.backend_info()
    runtime = (*info.runtime_distributions, "onnxruntime")
    return msgspec.structs.replace(
        info, name="tensorrt-rtx-on-stand-ins", runtime_distributions=runtime
    )
"""
_folder = TemporaryDirectory(prefix="enginebay-tensorrt-")
atexit.register(_folder.cleanup)

sys.path.insert(0, str(TESTS / "helpers"))
HAS_CUDA = find_spec("cuda") is not None
HAS_RTX = HAS_CUDA and find_spec("tensorrt_rtx_bindings") is not None
HAS_BINDINGS = HAS_CUDA and find_spec("tensorrt_bindings") is not None
if HAS_RTX and not ON_GPU:
    sys.path.insert(0, str(FAKE))
    os.environ["ENGINEBAY_TENSORRT_PLANS"] = _folder.name
    # Child processes find the stand-ins too.
    paths = (str(FAKE), str(TESTS / "helpers"), os.environ.get("PYTHONPATH", ""))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
elif HAS_BINDINGS and not ON_GPU:
    import stub_libraries

    stub_libraries.compile_stubs(Path(_folder.name))
    stub_libraries.load_stubs(Path(_folder.name))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, with the reason, what cannot run here."""
    for item in items:
        if TESTS not in item.path.parents or item.path.name in BEFORE:
            continue
        if ON_GPU:
            if item.path.name != "test_on_device.py":
                item.add_marker(pytest.mark.skip(reason="about the stand-ins, not the GPU"))
        elif not HAS_RTX and not (HAS_BINDINGS and item.path.name in NAMES):
            reason = "TensorRT for RTX is not installed: nox -s tensorrt"
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def no_stand_ins() -> dict[str, str]:
    """The environment of a child process that has TensorRT for RTX as it is, and no GPU."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    kept = [path for path in paths if path != str(FAKE)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(kept), "PYTHONWARNINGS": "ignore"}


@pytest.fixture
def on_gpu() -> bool:
    """Whether TensorRT and a GPU are here."""
    return bool(ON_GPU)


@pytest.fixture
def backend() -> str:
    """The backend of tests that run on a GPU and without one."""
    return ON_GPU or "tensorrt"  # over TensorRT for RTX; most other tests have that by its name


@pytest.fixture(scope="session")
def tensorrt_or_stand_in() -> Iterator[str]:
    """The backend for the laws; on stand-ins its name shows that it is not TensorRT."""
    if ON_GPU or not HAS_RTX:
        yield ON_GPU or "tensorrt"
        return
    from enginebay_testing import temporary_backend

    with temporary_backend("tensorrt-rtx-on-stand-ins", ON_STAND_INS):
        yield "tensorrt-rtx-on-stand-ins"


@pytest.fixture(scope="session")
def one_logger() -> None:
    """Let both backends share a logger, as they share a library."""
    from enginebay_tensorrt.library import get_library
    from enginebay_tensorrt.params import TensorrtParams, TensorrtRtxParams

    get_library(TensorrtParams()).logger = get_library(TensorrtRtxParams()).logger


@pytest.fixture
def stand_ins(one_logger: None) -> Iterator[Any]:
    """The stand-ins, as if nothing had happened yet."""
    from tensorrt_rtx import stand_ins

    stand_ins.reset()
    yield stand_ins
    stand_ins.reset()


@pytest.fixture
def machine(request: pytest.FixtureRequest) -> Any:
    """The machine that the stand-in for CUDA describes."""
    import fake_cuda

    if HAS_RTX:
        request.getfixturevalue("stand_ins")
    fake_cuda.install()
    fake_cuda.reset()
    return fake_cuda.machine


@pytest.fixture
def no_gpu(stand_ins: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """A machine without a GPU, here and in child processes; a call puts them in."""
    import fake_cuda

    def put_in() -> None:
        monkeypatch.delenv("ENGINEBAY_NO_GPU")
        fake_cuda.reset()

    monkeypatch.setenv("ENGINEBAY_NO_GPU", "1")
    fake_cuda.reset()
    yield put_in
    monkeypatch.undo()


@pytest.fixture
def on_cpu(stand_ins: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """CPU tensors pass as CUDA tensors; the current stream can be changed."""
    from types import SimpleNamespace

    import torch

    from enginebay_tensorrt import runner
    from enginebay_tensorrt.wrapper import TensorrtWrapper

    current = SimpleNamespace(cuda_stream=0x77)
    kept = []

    def keeping(method: Any) -> Any:
        # CUDA's allocator hands memory on to later work of the stream only; the CPU's at once.
        def call(tensor: torch.Tensor) -> torch.Tensor:
            kept.append(method(tensor))
            return kept[-1]

        return call

    for name in ("contiguous", "clone"):
        monkeypatch.setattr(torch.Tensor, name, keeping(getattr(torch.Tensor, name)))
    for module in (runner, sys.modules[stand_ins.ExecutionContext.__module__]):
        monkeypatch.setattr(module, "ALIGNMENT_BYTES", 64)  # that of torch's memory on the CPU
    device = torch.device
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _device: current)
    monkeypatch.setattr(torch, "device", lambda *_: device("cpu"))
    monkeypatch.setattr(TensorrtWrapper, "native_device", "cpu")
    return current
