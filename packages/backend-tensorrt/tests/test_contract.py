"""The backend uses only existing names of TensorRT's and CUDA's bindings.

The installed bindings are tested: TensorRT for RTX with its libraries, or TensorRT 10 or 11
over stub libraries, whose factories return null.
"""

from __future__ import annotations

import ast
import re
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from enginebay_tensorrt.context import Allocator
from enginebay_tensorrt.library import Library, get_library
from enginebay_tensorrt.monitor import Monitor
from enginebay_tensorrt.params import TensorrtParams, TensorrtRtxParams
from enginebay_tensorrt.plan_file import PlanWriter
from enginebay_tensorrt.products import TENSORRT_RTX

SOURCE = Path(__file__).parents[1] / "src" / "enginebay_tensorrt"
#: Names that some bindings lack, and are used after a check or for one product only.
LACKS = {
    "10": {"ComputeCapability", "ComputeCapability.__members__"},
    "11": {"BuilderFlag.FP16", "ComputeCapability", "ComputeCapability.__members__"},
    "rtx": {"BuilderFlag.FP16"},
}


def names_used() -> set[str]:
    """Every ``trt.A`` and ``trt.A.B`` in the backend's source."""
    found = set()
    for file in SOURCE.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            parts = []
            while isinstance(node, ast.Attribute):
                parts.insert(0, node.attr)
                node = node.value
            if parts[:1] == ["trt"] and len(parts) > 1:  # library.trt.A
                parts.pop(0)
            elif not (parts and isinstance(node, ast.Name) and node.id == "trt"):
                continue
            found.add(".".join(parts[:2]))
    return found


def resolve(root: Any, name: str) -> Any:
    for part in name.split("."):
        root = getattr(root, part, None)
    return root


@pytest.fixture(scope="module")
def library() -> Library:
    """The library that is installed: for RTX, or TensorRT itself."""
    params = TensorrtRtxParams if find_spec("tensorrt_rtx_bindings") else TensorrtParams
    return get_library(params())


@pytest.fixture(scope="module")
def real(library: Library) -> Any:
    """NVIDIA's own module, which the stand-ins for the GPU are around."""
    name = library.product.modules[-1]
    assert name.endswith("_bindings")
    return import_module(name)


@pytest.fixture(scope="module")
def kind(library: Library) -> str:
    """Which it is: ``rtx``, ``10`` or ``11``."""
    return "rtx" if library.product is TENSORRT_RTX else library.version.partition(".")[0]


def test_the_contract_reads_names_from_the_source() -> None:
    assert {"Builder", "Runtime", "OnnxParser", "BuilderFlag.FP16"} <= names_used()


def test_every_name_is_in_the_real_module(real: Any, kind: str) -> None:
    missing = {name for name in names_used() if resolve(real, name) is None}
    assert missing == LACKS[kind]


def test_the_real_module_has_every_interface(real: Any) -> None:
    sources = "".join(file.read_text() for file in SOURCE.glob("*.py"))
    interfaces = set(re.findall(r'interface = "(\w+)"', sources))
    assert {"ILogger", "IProgressMonitor", "IOutputAllocator", "IStreamWriter"} <= interfaces
    assert [name for name in interfaces if not hasattr(real, name)] == []


def test_the_real_module_has_every_composed_name(real: Any) -> None:
    for flag in ("VERSION_COMPATIBLE", "SPARSE_WEIGHTS", "STRIP_PLAN", "REFIT", "REFIT_IDENTICAL"):
        assert hasattr(real.BuilderFlag, flag)
    levels = TensorrtParams.__annotations__["hardware_compatibility"]
    for level in ("none", "same_compute_capability", "ampere_plus"):
        assert level in levels
        assert hasattr(real.HardwareCompatibilityLevel, level.upper())


def test_precision_flags_depend_on_the_version(library: Library, real: Any, kind: str) -> None:
    assert library.version == real.__version__
    assert library.has_precision_flags is (kind == "10")
    assert hasattr(real.NetworkDefinitionCreationFlag, "STRONGLY_TYPED")


def test_dtypes_are_named_as_in_the_real_enum(real: Any) -> None:
    from enginebay_tensorrt.dtypes import _NAMES, get_dtype_name

    assert set(_NAMES) <= set(real.DataType.__members__)
    assert get_dtype_name(real.DataType.HALF) == "float16"
    assert get_dtype_name(real.DataType.INT4) == "int4"


@pytest.mark.skipif(not find_spec("tensorrt_rtx_bindings"), reason="it has no stand-ins")
def test_the_stand_ins_are_like_the_real_classes(stand_ins: Any) -> None:
    from pybind_signatures import differences

    found = [text for fake, theirs in stand_ins.STANDS_FOR for text in differences(fake, theirs)]
    assert found == []


def test_stand_ins_that_differ_are_noticed(real: Any) -> None:
    from pybind_signatures import differences

    class Context:
        def execute_async_v3(self, stream: int) -> bool: ...

        def execute_async_v4(self, stream_handle: int) -> bool: ...

        @property
        def infer_shapes(self) -> list[str]: ...

    assert differences(Context, real.IExecutionContext) == [
        "IExecutionContext.execute_async_v3 takes [['stream_handle']], not ['stream']",
        "IExecutionContext has no execute_async_v4",
        "IExecutionContext.infer_shapes is no property",
    ]


def test_classes_derive_from_the_real_bindings(library: Library, real: Any) -> None:
    """Loggers, monitors, writers and allocators are NVIDIA's own classes, with our methods."""
    monitor = library.derive(Monitor)(print)
    assert isinstance(library.logger, real.ILogger)
    assert isinstance(monitor, real.IProgressMonitor)
    assert isinstance(library.derive(PlanWriter)(BytesIO(), monitor), real.IStreamWriter)
    assert isinstance(library.derive(Allocator)(), real.IOutputAllocator)
    document = real.IOutputAllocator.__doc__
    for line in (
        "reallocate_output_async(self, tensor_name, memory, size, alignment, stream)",
        "notify_shape(self, tensor_name, shape)",
    ):
        assert line in document


def test_monitor_methods_are_named_as_the_real_ones(real: Any) -> None:
    import inspect

    from pybind_signatures import overloads

    for name in ("phase_start", "step_complete", "phase_finish"):
        mine = list(inspect.signature(getattr(Monitor, name)).parameters)[1:]
        assert mine in overloads(getattr(real.IProgressMonitor, name))


def test_real_factories_return_null_over_the_stubs(library: Library, real: Any, kind: str) -> None:
    if kind == "rtx":
        pytest.skip("its libraries are no stubs")
    with pytest.raises(TypeError, match="nullptr"):
        real.Builder(library.logger)
    with pytest.raises(TypeError, match="nullptr"):
        real.Runtime(library.logger)
    assert real.init_libnvinfer_plugins(library.logger, "") is True


def test_the_stand_in_for_cuda_has_cudas_signatures() -> None:
    import fake_cuda

    assert fake_cuda.differences() == []


def test_cuda_accepts_the_types_of_the_arguments() -> None:
    """Without a driver each call answers a status; a wrong kind of argument would raise."""
    import fake_cuda
    from cuda.bindings import runtime

    kind = runtime.cudaMemcpyKind.cudaMemcpyHostToDevice
    mode = runtime.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
    event, graph, recorded = (
        getattr(runtime, f"cuda{each}_t")() for each in ("Event", "Graph", "GraphExec")
    )
    given: dict[str, tuple[Any, ...]] = {
        **dict.fromkeys(("cudaMalloc", "cudaMallocHost"), (4,)),
        **dict.fromkeys(("cudaFree", "cudaFreeHost"), (0,)),
        "cudaMemcpyAsync": (0, 0, 0, kind, 0),
        "cudaMemsetAsync": (0, 0, 0, 0),
        "cudaStreamCreateWithFlags": (runtime.cudaStreamNonBlocking,),
        **dict.fromkeys(("cudaStreamDestroy", "cudaStreamSynchronize"), (0,)),
        "cudaEventCreateWithFlags": (runtime.cudaEventDisableTiming,),
        "cudaEventRecord": (event, 0),
        "cudaStreamWaitEvent": (0, event, 0),
        **dict.fromkeys(("cudaEventDestroy", "cudaEventSynchronize"), (event,)),
        "cudaStreamBeginCapture": (0, mode),
        "cudaStreamEndCapture": (0,),
        "cudaGraphInstantiate": (graph, 0),
        "cudaGraphLaunch": (recorded, 0),
        "cudaGraphDestroy": (graph,),
        "cudaGraphExecDestroy": (recorded,),
        **dict.fromkeys(("cudaGetDeviceProperties", "cudaSetDevice"), (0,)),
        **dict.fromkeys(("cudaGetDevice", "cudaGetDeviceCount", "cudaDeviceSynchronize"), ()),
        **dict.fromkeys(("cudaDriverGetVersion", "cudaRuntimeGetVersion"), ()),
    }
    assert set(given) == set(fake_cuda.FUNCTIONS)
    fake_cuda.reset()
    for name, arguments in given.items():
        status, *values = fake_cuda.REAL[name](*arguments)
        assert isinstance(status, runtime.cudaError_t), name
        if name.startswith(("cudaMalloc", "cudaGetDevice", "cudaDriver", "cudaStreamCreate")):
            assert len(values) == len(fake_cuda.FUNCTIONS[name](*arguments)) - 1, name
    assert {"name", "major", "minor"} <= set(dir(runtime.cudaDeviceProp))
    assert int(runtime.cudaStream_t()) == 0  # streams are handed on as numbers
    fake_cuda.reset()


def test_every_function_of_cudas_has_a_stand_in() -> None:
    import fake_cuda

    text = "".join(file.read_text() for file in SOURCE.glob("*.py"))
    used = set(re.findall(r'"(cuda[A-Z]\w+)"', text)) - {"cudaGetErrorString"}
    # Put together from the end of the name.
    used |= {"cudaDriverGetVersion", "cudaRuntimeGetVersion"}
    assert used == set(fake_cuda.FUNCTIONS)
