"""The real bindings over stub libraries, and stand-ins that ONNX Runtime computes for.

These tests need one of NVIDIA's bindings wheels (``tensorrt-cu12-bindings``,
``tensorrt-cu13-bindings``), ``cuda-bindings`` and gcc; ``nox -s tensorrt`` brings them.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

FAKE = Path(__file__).parent / "fake"
#: Tests of what comes before TensorRT; they run anywhere.
BEFORE = ("test_half.py", "test_quantize.py", "test_tensorrt_params.py", "test_start_up.py")
_stubs = TemporaryDirectory(prefix="enginebay-stubs-")

HAS_BINDINGS = find_spec("tensorrt_bindings") is not None and find_spec("cuda") is not None
if HAS_BINDINGS:
    sys.path.insert(0, str(FAKE))
    import stub_libraries

    stub_libraries.compile_stubs(Path(_stubs.name))
    os.environ["ENGINEBAY_TENSORRT_STUBS"] = _stubs.name
    # Child processes find the stand-ins too.
    paths = (str(FAKE), os.environ.get("PYTHONPATH", ""))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, with the reason, what needs the bindings where there are none."""
    reason = "TensorRT's Python bindings are not installed: nox -s tensorrt"
    for item in items:
        if not HAS_BINDINGS and item.path.name not in BEFORE and FAKE.parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def stand_ins() -> Iterator[Any]:
    """The stand-ins, as if nothing had happened yet."""
    from tensorrt import stand_ins

    stand_ins.reset()
    yield stand_ins
    stand_ins.reset()


@pytest.fixture
def machine(stand_ins: Any) -> Any:
    """The machine that the stand-in for CUDA describes."""
    import fake_cuda

    return fake_cuda.machine


@pytest.fixture(scope="session")
def is_eleven() -> bool:
    """Whether the bindings are TensorRT 11's."""
    import stub_libraries

    return stub_libraries.wanted_major() == 11
