"""Stand-ins for engines and what runs them; ONNX Runtime computes."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import fake_cuda
import numpy as np
import onnx
import onnxruntime as ort
import tensorrt_rtx_bindings as trt
from onnx import TensorProto

from tensorrt_rtx.recording import graph_of
from tensorrt_rtx.shared import FAULTS, LOG, ParserError, dims_of, value_of

#: Addresses are multiples of this.
ALIGNMENT_BYTES = 256


class Runtime:
    """``Runtime``."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._values: dict[str, Any] = {"engine_host_code_allowed": False}

    engine_host_code_allowed = value_of("engine_host_code_allowed", bool)
    DLA_core = value_of("DLA_core", int)

    def deserialize_cuda_engine(self, serialized_engine: bytes) -> CudaEngine | None:
        LOG.append(("deserialize_cuda_engine", fake_cuda.here.device))
        LOG.extend(("DLA_core", core) for name, core in self._values.items() if name == "DLA_core")
        if fault := _what_is_wrong(serialized_engine):
            self._logger.log(trt.ILogger.ERROR, fault)
            return None
        facts, model = graph_of(serialized_engine)
        if "VERSION_COMPATIBLE" in facts["flags"] and not self._values["engine_host_code_allowed"]:
            self._logger.log(trt.ILogger.ERROR, "the engine carries host code")
            return None
        return CudaEngine(facts, model, self._logger)


def _what_is_wrong(plan: bytes) -> str:
    """Compare a plan with the real builder's format: magic, length, version, a second magic."""
    if plan[:4] != b"vtrt" or plan[28:32] != b"vtrt":
        return "Magic tag does not match"
    length = int.from_bytes(plan[16:24], "little")
    if len(plan) < length:
        return f"the plan has {len(plan)} of {length} bytes"
    # A byte for each part: 1.7.1.116.
    version = ".".join(str(number) for number in plan[24:28])
    return "" if version == trt.__version__ else f"the plan is of version {version}"


class CudaEngine:
    """``ICudaEngine``."""

    def __init__(self, facts: dict[str, Any], model: Any, logger: Any) -> None:
        self._facts, self._model, self._logger = facts, model, logger
        self._stripped = "STRIP_PLAN" in facts["flags"]
        self._device = fake_cuda.here.device
        #: As the real network had them: dtypes and shapes by name.
        self._values = {name: rest for name, *rest in (*facts["inputs"], *facts["outputs"])}
        values = (*model.graph.input, *model.graph.output)
        self._session: Any = None
        kinds = {value.type.tensor_type.elem_type for value in values}
        kinds |= {tensor.data_type for tensor in model.graph.initializer}
        self._has_bf16 = TensorProto.BFLOAT16 in kinds

    def _compute(self, feed: dict[str, Any]) -> list[Any]:
        assert not self._stripped, "an engine without its weights was run"
        if self._has_bf16:
            from onnx.reference import ReferenceEvaluator  # ONNX Runtime's CPU has no bf16

            return ReferenceEvaluator(self._model).run(None, feed)
        if self._session is None:
            options = ort.SessionOptions()
            options.log_severity_level = 3
            # Fused, fp8's Q/DQ would become an operator that has no kernel.
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
            self._session = ort.InferenceSession(self._model.SerializeToString(), options)
        return self._session.run(None, feed)

    @property
    def num_io_tensors(self) -> int:
        return len(self._values)

    @property
    def num_optimization_profiles(self) -> int:
        return len(self._facts["profiles"]) or 1

    @property
    def num_layers(self) -> int:
        return int(self._facts["layers"])

    @property
    def device_memory_size_v2(self) -> int:
        return 4096

    def get_tensor_name(self, index: int) -> str:
        return list(reversed(self._values))[index]  # TensorRT promises no order

    def get_tensor_location(self, name: str) -> Any:
        host = name in FAULTS.get("host_tensors", ())
        return trt.TensorLocation.HOST if host else trt.TensorLocation.DEVICE

    def get_tensor_mode(self, name: str) -> Any:
        given = any(name == each for each, *_ in self._facts["inputs"])
        return trt.TensorIOMode.INPUT if given else trt.TensorIOMode.OUTPUT

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._values[name][1])

    def get_tensor_dtype(self, name: str) -> Any:
        return getattr(trt.DataType, self._values[name][0])

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[tuple[int, ...]]:
        dims = self.get_tensor_shape(name)
        if not self._facts["profiles"]:
            return [dims] * 3
        return self._facts["profiles"][profile_index].get(name, [dims] * 3)

    def create_execution_context(self) -> ExecutionContext | None:
        LOG.append("create_execution_context")
        assert fake_cuda.here.device == self._device
        return None if FAULTS.get("no_memory") else ExecutionContext(self)


class ExecutionContext:
    """``IExecutionContext``."""

    def __init__(self, engine: CudaEngine) -> None:
        self._engine = engine
        self._profile = 0
        self._shapes: dict[str, tuple[int, ...]] = {
            value.name: dims_of(value) for value in engine._model.graph.input
        }
        self._addresses: dict[str, int] = {}
        self._allocators: dict[str, Any] = {}
        self._kept: list[Any] = []
        self._found: dict[str, tuple[int, ...]] = {}
        self.profiler: Any = None
        self.enqueue_emits_profile = True

    @property
    def active_optimization_profile(self) -> int:
        return self._profile

    def set_optimization_profile_async(self, profile_index: int, stream_handle: int) -> bool:
        LOG.append(("set_optimization_profile_async", profile_index, stream_handle))
        self._profile = profile_index
        return True

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        assert isinstance(shape, tuple)
        low, _, high = self._engine.get_tensor_profile_shape(name, self._profile)
        if not all(a <= b <= c for a, b, c in zip(low, shape, high, strict=True)):
            self._engine._logger.log(trt.ILogger.ERROR, f"{name} has a shape out of range")
            return False
        self._shapes[name] = shape
        return True

    def infer_shapes(self) -> list[str]:
        missing = [name for name, shape in self._shapes.items() if -1 in shape]
        if not missing:
            model = onnx.ModelProto()
            model.CopyFrom(self._engine._model)
            for value in model.graph.input:
                shape = value.type.tensor_type.shape
                for dim, size in zip(shape.dim, self._shapes[value.name], strict=True):
                    dim.dim_value = size
            for value in model.graph.output:
                value.type.tensor_type.ClearField("shape")
            found = onnx.shape_inference.infer_shapes(model, data_prop=True)
            self._found = {value.name: dims_of(value) for value in found.graph.output}
        return missing

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return self._found[name]

    def set_tensor_address(self, name: str, memory: int) -> bool:
        assert memory, f"{name} has no address"
        if memory % ALIGNMENT_BYTES:
            self._engine._logger.log(trt.ILogger.ERROR, f"{name} is not aligned")
            return False
        self._addresses[name] = int(memory)
        return True

    def set_output_allocator(self, name: str, output_allocator: Any) -> bool:
        assert isinstance(output_allocator, trt.IOutputAllocator)
        self._allocators[name] = output_allocator
        self._kept.append(output_allocator)  # keep_alive<1, 3> in NVIDIA's pyCore.cpp
        return True

    def execute_async_v3(self, stream_handle: int) -> bool:
        LOG.append(("execute_async_v3", stream_handle, fake_cuda.here.device))
        if "execute" in FAULTS:
            self._engine._logger.log(trt.ILogger.ERROR, FAULTS["execute"])
            return False
        stream = fake_cuda.stream(stream_handle)
        assert stream.device == fake_cuda.here.device == self._engine._device
        self._report()
        shapes, addresses = dict(self._shapes), dict(self._addresses)
        inputs = list(self._engine._model.graph.input)
        for value in inputs:
            assert value.name in addresses, f"{value.name} has no address"

        def compute() -> list[Any]:
            feed = {v.name: _read(addresses[v.name], shapes[v.name], v) for v in inputs}
            return self._engine._compute(feed)

        outputs = self._engine._model.graph.output
        if not self._allocators:
            stream.put(
                lambda: (
                    [
                        _write(addresses[value.name], found)
                        for value, found in zip(outputs, compute(), strict=True)
                    ]
                    and None
                )
            )
            return True
        # A shape that depends on the data is known once the data are.
        stream.run_until(stream.issued)
        for value, found in zip(outputs, compute(), strict=True):
            if value.name not in self._allocators:
                _write(addresses[value.name], found)
                continue
            allocator = self._allocators[value.name]
            # Always more than 0 bytes: NvInferRuntime.h
            address = allocator.reallocate_output_async(
                value.name, 0, max(found.nbytes, 1), 256, stream_handle
            )
            if not address:
                self._engine._logger.log(trt.ILogger.ERROR, f"no memory for {value.name}")
                return False
            allocator.notify_shape(value.name, trt.Dims(found.shape))
            _write(address, found)
        return True

    def _report(self) -> None:
        """Tell the profiler each layer's time; a Relu is fused into the layer before."""
        if self.profiler is None or not self.enqueue_emits_profile:
            return
        assert isinstance(self.profiler, trt.IProfiler)
        names: list[str] = []
        for node in self._engine._model.graph.node:
            if node.op_type == "Relu" and names:
                names[-1] += f" + {node.name}"
            else:
                names.append(node.name)
        for name in names:
            self.profiler.report_layer_time(name, 0.25)


def _read(address: int, shape: tuple[int, ...], value: Any) -> Any:
    from onnx import helper

    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
    nbytes = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer(ctypes.string_at(address, nbytes), dtype).reshape(shape)


def _write(address: int, array: Any) -> None:
    array = np.ascontiguousarray(array)
    ctypes.memmove(address, array.ctypes.data, array.nbytes)


class Refitter:
    """``Refitter``."""

    def __init__(self, engine: CudaEngine, logger: Any) -> None:
        self._engine = engine

    def refit_cuda_engine(self) -> bool:
        LOG.append("refit_cuda_engine")
        self._engine._stripped = False
        self._engine._session = None
        return True


class OnnxParserRefitter:
    """``OnnxParserRefitter``."""

    def __init__(self, refitter: Refitter, logger: Any) -> None:
        self._engine = refitter._engine
        self._errors: list[ParserError] = []

    def refit_from_file(self, model: str) -> bool:
        proto = onnx.load(model)
        mine = [node.op_type for node in self._engine._model.graph.node]
        refittable = {"REFIT", "REFIT_IDENTICAL"} & {*self._engine._facts["flags"]}
        if not refittable or mine != [n.op_type for n in proto.graph.node]:
            code = trt.ErrorCode.REFIT_FAILED
            self._errors = [ParserError(None, "the graph is another", code)]
            return False
        del self._engine._model.graph.initializer[:]
        self._engine._model.graph.initializer.extend(proto.graph.initializer)
        return True

    @property
    def num_errors(self) -> int:
        return len(self._errors)

    def get_error(self, index: int) -> ParserError:
        return self._errors[index]


class PluginRegistry:
    """``IPluginRegistry``, which accepts a text as a library: a real library needs headers."""

    def load_library(self, plugin_path: str) -> Any:
        LOG.append(("load_library", plugin_path))
        if Path(plugin_path).read_bytes().startswith(b"a library"):
            return self
        return trt.get_plugin_registry().load_library(plugin_path)


def get_plugin_registry() -> PluginRegistry:
    return PluginRegistry()
