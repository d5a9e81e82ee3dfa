"""Stand-ins for the objects that TensorRT's libraries make; ONNX Runtime computes for them.

They are as strict as TensorRT is documented to be: a call without addresses, with shapes outside
the profile, with settings of another version, or on freed memory fails.
"""

from __future__ import annotations

import ctypes
import json
import time
from typing import Any

import fake_cuda
import numpy as np
import onnx
import onnxruntime as ort
import tensorrt_bindings as trt
from onnx import TensorProto

#: What was called, in order.
LOG: list[Any] = []
#: Builder configs and parsers that were used, for tests to look at.
CONFIGS: list[Any] = []
MAGIC = b"plan\n"
#: What to do wrong, by name.
FAULTS: dict[str, Any] = {}
#: What an address is a multiple of.
ALIGNMENT = 256

#: Operators that the parser does not know.
REFUSED = ("StringNormalizer", "Unique", "Det")
TYPES = {
    TensorProto.FLOAT: "FLOAT",
    TensorProto.FLOAT16: "HALF",
    TensorProto.BFLOAT16: "BF16",
    TensorProto.INT8: "INT8",
    TensorProto.INT32: "INT32",
    TensorProto.INT64: "INT64",
    TensorProto.UINT8: "UINT8",
    TensorProto.BOOL: "BOOL",
    TensorProto.DOUBLE: "FLOAT",  # the parser casts
}


def reset() -> None:
    LOG.clear()
    CONFIGS.clear()
    FAULTS.clear()
    fake_cuda.reset()


def dims_of(value: Any) -> tuple[int, ...]:
    shape = value.type.tensor_type.shape
    return tuple(d.dim_value if d.HasField("dim_value") else -1 for d in shape.dim)


def type_of(value: Any) -> Any:
    return getattr(trt.DataType, TYPES[value.type.tensor_type.elem_type])


def _names_read(node: Any) -> list[str]:
    inner = [each for a in node.attribute for each in (*a.graphs, a.g) for each in each.node]
    return [*node.input, *(name for each in inner for name in _names_read(each))]


class Tensor:
    """``ITensor``."""

    def __init__(self, value: Any) -> None:
        self._value = value

    @property
    def name(self) -> str:
        return self._value.name

    @property
    def dtype(self) -> Any:
        return type_of(self._value)

    @property
    def shape(self) -> tuple[int, ...]:
        return dims_of(self._value)

    @property
    def is_shape_tensor(self) -> bool:
        return self.name in FAULTS.get("shape_tensors", ())


class Network:
    """``INetworkDefinition``."""

    def __init__(self, flags: int) -> None:
        self._flags = flags
        self._model: Any = None

    @property
    def num_inputs(self) -> int:
        return len(self._model.graph.input)

    @property
    def num_outputs(self) -> int:
        return len(self._model.graph.output)

    def get_input(self, index: int) -> Tensor:
        return Tensor(self._model.graph.input[index])

    def get_output(self, index: int) -> Tensor:
        return Tensor(self._model.graph.output[index])


class Profile:
    """``IOptimizationProfile``."""

    def __init__(self) -> None:
        self._shapes: dict[str, list[tuple[int, ...]]] = {}

    def set_shape(self, input: str, min: Any, opt: Any, max: Any) -> None:  # noqa: A002
        self._shapes[input] = [tuple(min), tuple(opt), tuple(max)]

    def get_shape(self, input: str) -> list[tuple[int, ...]]:  # noqa: A002
        return self._shapes[input]


class TimingCache:
    """``ITimingCache``: lines of text."""

    def __init__(self, lines: set[str]) -> None:
        self._lines = lines

    def combine(self, input_cache: TimingCache, ignore_mismatch: bool) -> bool:
        assert ignore_mismatch is False
        self._lines |= input_cache._lines
        return True

    def serialize(self) -> bytes:
        return "\n".join(sorted(self._lines)).encode()


class Config:
    """``IBuilderConfig``."""

    def __init__(self) -> None:
        self._flags = {trt.BuilderFlag.TF32}
        self._profiles: list[Profile] = []
        self._values: dict[str, Any] = {}
        CONFIGS.append(self)

    def set_flag(self, flag: Any) -> None:
        assert isinstance(flag, trt.BuilderFlag)
        self._flags.add(flag)

    def clear_flag(self, flag: Any) -> None:
        assert isinstance(flag, trt.BuilderFlag)
        self._flags.discard(flag)

    def get_flag(self, flag: Any) -> bool:
        return flag in self._flags

    def set_memory_pool_limit(self, pool: Any, pool_size: int) -> None:
        assert isinstance(pool, trt.MemoryPoolType)
        self._values[pool.name] = pool_size

    def get_memory_pool_limit(self, pool: Any) -> int:
        return self._values[pool.name]

    def add_optimization_profile(self, profile: Profile) -> int:
        if FAULTS.get("profile_refused"):
            return -1
        self._profiles.append(profile)
        return len(self._profiles) - 1

    def create_timing_cache(self, serialized_timing_cache: bytes) -> TimingCache | None:
        if serialized_timing_cache.startswith(b"damaged"):
            return None
        return TimingCache(set(filter(None, serialized_timing_cache.decode().split("\n"))))

    def set_timing_cache(self, cache: TimingCache, ignore_mismatch: bool) -> bool:
        assert ignore_mismatch is False
        self._values["timing_cache"] = cache
        return True

    if hasattr(trt.IBuilderConfig, "set_calibration_profile"):

        def set_calibration_profile(self, profile: Profile) -> bool:
            self._values["calibration_profile"] = profile
            return True


def _value(name: str, kind: Any) -> property:
    def fget(self: Config) -> Any:
        return self._values[name]

    def fset(self: Config, value: Any) -> None:
        assert isinstance(value, kind), (name, value)
        self._values[name] = value

    return property(fget, fset)


for _name, _kind in {
    "progress_monitor": trt.IProgressMonitor,
    "builder_optimization_level": int,
    "hardware_compatibility_level": trt.HardwareCompatibilityLevel,
    "default_device_type": trt.DeviceType,
    "DLA_core": int,
}.items():
    setattr(Config, _name, _value(_name, _kind))
if hasattr(trt, "IInt8Calibrator"):
    Config.int8_calibrator = _value("int8_calibrator", trt.IInt8Calibrator)


def _watched(monitor: Any) -> bool:
    """Call the monitor as the bindings do, which swallow what is raised; whether to go on."""
    going = True
    try:
        monitor.phase_start("Building Engine", None, 2)
        monitor.phase_start("Tactic Selection", "Building Engine", 3)
        for step in range(3):
            time.sleep(FAULTS.get("slow", 0))
            if going := monitor.step_complete("Tactic Selection", step):
                continue
            break
        monitor.phase_finish("Tactic Selection")
        monitor.phase_finish("Building Engine")
    except BaseException:
        return False
    return going


class Builder:
    """``Builder``."""

    def __init__(self, logger: Any) -> None:
        assert isinstance(logger, trt.ILogger)
        self._logger = logger

    @property
    def num_DLA_cores(self) -> int:
        return FAULTS.get("dla_cores", 2)

    def create_network(self, flags: int = 0) -> Network:
        LOG.append(("create_network", flags))
        return Network(flags)

    def create_builder_config(self) -> Config:
        return Config()

    def create_optimization_profile(self) -> Profile:
        return Profile()

    def build_serialized_network(self, network: Network, config: Config) -> bytes | None:
        LOG.append(("build_serialized_network", fake_cuda.here.device))
        if not _watched(config._values["progress_monitor"]):
            return None
        if "build" in FAULTS:
            self._logger.log(trt.ILogger.ERROR, FAULTS["build"])
            return None
        dynamic = any(-1 in dims_of(value) for value in network._model.graph.input)
        if dynamic and not config._profiles:
            self._logger.log(trt.ILogger.ERROR, "dynamic inputs without a profile")
            return None
        self._calibrate(network, config)
        if "timing_cache" in config._values:
            config._values["timing_cache"]._lines.add(FAULTS.get("measured", "conv 1 ms"))
        model = onnx.ModelProto()
        model.CopyFrom(network._model)
        read = {name for node in model.graph.node for name in _names_read(node)}
        for value in [v for v in model.graph.input if v.name not in read]:
            model.graph.input.remove(value)  # TensorRT warns, and drops it
        if config.get_flag(trt.BuilderFlag.STRIP_PLAN):
            del model.graph.initializer[:]
        header = {
            "version": trt.__version__,
            "profiles": [profile._shapes for profile in config._profiles],
            "lean": config.get_flag(trt.BuilderFlag.VERSION_COMPATIBLE),
            "stripped": config.get_flag(trt.BuilderFlag.STRIP_PLAN),
            "refittable": config.get_flag(trt.BuilderFlag.REFIT)
            or config.get_flag(trt.BuilderFlag.REFIT_IDENTICAL),
        }
        return MAGIC + json.dumps(header).encode() + b"\n" + model.SerializeToString()

    @staticmethod
    def _calibrate(network: Network, config: Config) -> None:
        calibrator = config._values.get("int8_calibrator")
        if calibrator is None:
            return
        assert config.get_flag(trt.BuilderFlag.INT8)
        names = [value.name for value in network._model.graph.input]
        shapes = config._values["calibration_profile"]._shapes
        assert calibrator.get_batch_size() == 1
        assert calibrator.read_calibration_cache() is None
        batches = []
        while addresses := calibrator.get_batch(names):
            batches.append(
                [
                    np.frombuffer(
                        ctypes.string_at(address, 4 * int(np.prod(shapes[name][1]))), np.float32
                    ).copy()
                    for name, address in zip(names, addresses, strict=True)
                ]
            )
        calibrator.write_calibration_cache(b"scales")
        LOG.append(("calibrated", batches))


class ParserError:
    """``ParserError``."""

    def __init__(self, node: Any, text: str, code: Any) -> None:
        self._node, self._text, self._code = node, text, code

    def node_name(self) -> str:
        return self._node.name if self._node is not None else ""

    def node_operator(self) -> str:
        return self._node.op_type if self._node is not None else ""

    def desc(self) -> str:
        return self._text

    def code(self) -> Any:
        return self._code


def _bytes_inside(proto: Any) -> list[ParserError]:
    """Nodes that use bytes: the parser has them at the network's edges, and Cast for them."""
    graph = onnx.shape_inference.infer_shapes(proto).graph
    values = (*graph.value_info, *graph.input, *graph.output)
    found = {v.name for v in values if v.type.tensor_type.elem_type == TensorProto.UINT8}
    inside = found - {v.name for v in (*graph.input, *graph.output)}
    return [
        ParserError(node, f"{node.op_type} takes no uint8", trt.ErrorCode.UNSUPPORTED_NODE)
        for node in graph.node
        if found & {*node.input, *node.output}
        and (node.op_type != "Cast" or inside & {*node.output})
    ]


class OnnxParser:
    """``OnnxParser``; it knows ONNX's own operators, but not all of them."""

    def __init__(self, network: Network, logger: Any) -> None:
        self._network, self._errors = network, []

    def set_flag(self, flag: Any) -> None:
        assert isinstance(flag, trt.OnnxParserFlag)
        LOG.append(("parser", flag.name))

    def parse_from_file(self, model: str) -> bool:
        LOG.append(("parse_from_file", model))
        try:
            proto = onnx.load(model)
        except Exception:
            code = trt.ErrorCode.MODEL_DESERIALIZE_FAILED
            self._errors = [ParserError(None, "Failed to parse the file", code)]
            return False
        self._errors = [
            ParserError(node, f"no importer for {node.op_type}\n", trt.ErrorCode.UNSUPPORTED_NODE)
            for node in proto.graph.node
            if node.op_type in REFUSED or node.domain not in ("", "ai.onnx")
        ] or _bytes_inside(proto)
        outputs = {value.name for value in proto.graph.output}
        for value in proto.graph.input:
            if value.name in outputs:  # as in onnx-tensorrt's ModelImporter.cpp
                value.name = f"__{value.name}"
        self._network._model = proto
        return not self._errors

    @property
    def num_errors(self) -> int:
        return len(self._errors)

    def get_error(self, index: int) -> ParserError:
        return self._errors[index]


class Runtime:
    """``Runtime``."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._values: dict[str, Any] = {"engine_host_code_allowed": False}

    engine_host_code_allowed = _value("engine_host_code_allowed", bool)
    DLA_core = _value("DLA_core", int)

    def deserialize_cuda_engine(self, serialized_engine: bytes) -> CudaEngine | None:
        LOG.append(("deserialize_cuda_engine", fake_cuda.here.device))
        LOG.extend(("DLA_core", core) for name, core in self._values.items() if name == "DLA_core")
        if not serialized_engine.startswith(MAGIC):
            self._logger.log(trt.ILogger.ERROR, "Magic tag does not match")
            return None
        _, header, model = serialized_engine.split(b"\n", 2)
        facts = json.loads(header)
        if facts["lean"] and not self._values["engine_host_code_allowed"]:
            self._logger.log(trt.ILogger.ERROR, "the engine carries host code")
            return None
        return CudaEngine(facts, onnx.ModelProto.FromString(model), self._logger)


class CudaEngine:
    """``ICudaEngine``."""

    def __init__(self, facts: dict[str, Any], model: Any, logger: Any) -> None:
        self._facts, self._model, self._logger = facts, model, logger
        self._stripped = facts["stripped"]
        self._device = fake_cuda.here.device
        self._values = {v.name: v for v in (*model.graph.input, *model.graph.output)}
        self._session: Any = None
        kinds = {value.type.tensor_type.elem_type for value in self._values.values()}
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
        return len(self._model.graph.node)

    @property
    def device_memory_size_v2(self) -> int:
        return 4096

    def get_tensor_name(self, index: int) -> str:
        return list(reversed(self._values))[index]  # TensorRT promises no order

    def get_tensor_location(self, name: str) -> Any:
        host = name in FAULTS.get("host_tensors", ())
        return trt.TensorLocation.HOST if host else trt.TensorLocation.DEVICE

    def get_tensor_mode(self, name: str) -> Any:
        given = any(value.name == name for value in self._model.graph.input)
        return trt.TensorIOMode.INPUT if given else trt.TensorIOMode.OUTPUT

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return dims_of(self._values[name])

    def get_tensor_dtype(self, name: str) -> Any:
        return type_of(self._values[name])

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[tuple[int, ...]]:
        dims = dims_of(self._values[name])
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
        if memory % ALIGNMENT:
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
        if not self._engine._facts["refittable"] or mine != [n.op_type for n in proto.graph.node]:
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
    """``IPluginRegistry``."""

    def load_library(self, plugin_path: str) -> Any:
        LOG.append(("load_library", plugin_path))
        return None if "broken" in plugin_path else object()


def get_plugin_registry() -> PluginRegistry:
    return PluginRegistry()


#: Which real class each one stands for.
STANDS_FOR = (
    (Tensor, trt.ITensor),
    (Network, trt.INetworkDefinition),
    (Profile, trt.IOptimizationProfile),
    (TimingCache, trt.ITimingCache),
    (Config, trt.IBuilderConfig),
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
