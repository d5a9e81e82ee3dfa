"""Stand-ins for networks, builders and parsers; a plan is the model with a header."""

from __future__ import annotations

import json
import time
from typing import Any

import fake_cuda
import onnx
import tensorrt_bindings as trt
from onnx import TensorProto

from tensorrt.shared import CONFIGS, FAULTS, LOG, MAGIC, ParserError, dims_of, type_of, value_of

#: Operators that the parser does not know.
REFUSED = ("StringNormalizer", "Unique", "Det")


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


for _name, _kind in {
    "progress_monitor": trt.IProgressMonitor,
    "builder_optimization_level": int,
    "hardware_compatibility_level": trt.HardwareCompatibilityLevel,
    "default_device_type": trt.DeviceType,
    "DLA_core": int,
}.items():
    setattr(Config, _name, value_of(_name, _kind))


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
