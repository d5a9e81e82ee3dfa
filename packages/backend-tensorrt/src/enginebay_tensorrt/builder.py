"""TensorRT's builder: from an ``.onnx`` file to a serialized engine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from enginebay.errors import ConversionError, ParamsError
from enginebay_tensorrt import cuda
from enginebay_tensorrt.dtypes import dtype_name
from enginebay_tensorrt.installation import HAS_PRECISION_FLAGS, trt
from enginebay_tensorrt.logger import LOGGER, reason
from enginebay_tensorrt.monitor import Monitor
from enginebay_tensorrt.precision import uses_flags
from enginebay_tensorrt.profiles import profiles_for
from enginebay_tensorrt.timing_cache import cache_file, timing_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from enginebay import TensorSpec
    from enginebay.authors import ShapeProfile
    from enginebay_tensorrt.params import TensorrtParams
    from enginebay_tensorrt.profiles import Profile

#: Parser errors in a message; a model with one unsupported operator often has hundreds of it.
_MAX_ERRORS = 3


def build_plan(
    source: Path,
    params: TensorrtParams,
    device: cuda.Device,
    *,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    shapes: Mapping[str, ShapeProfile],
    progress: Callable[[str], None],
) -> bytes:
    """Parse the model, configure the builder and build.

    Args:
        source: An ``.onnx`` file, its tensors typed as the engine is to compute.
        params: How to build.
        device: What it is built on and for.
        inputs: The model's inputs, to be compared with the parsed network's.
        outputs: The model's outputs, likewise.
        shapes: The inputs' shapes as far as the deployment knows them.
        progress: Called with the builder's phases.

    Returns:
        The plan, as ``Runtime.deserialize_cuda_engine`` takes it.

    Raises:
        ParamsError: Shapes are missing or do not fit.
        ConversionError: TensorRT does not know an operator or cannot build; the nodes are named.
    """
    with cuda.on_device(device.index), LOGGER.collecting() as errors:
        builder = trt.Builder(LOGGER)
        _check_dla(builder, params)
        network = builder.create_network(_creation_flags(params))
        _parse(network, source, params)
        _check(network, source, inputs, outputs)
        monitor = Monitor(progress)
        config = builder.create_builder_config()
        config.progress_monitor = monitor
        _configure(config, params)
        _add_profiles(builder, config, profiles_for(_shapes(network), params, shapes))
        file = cache_file(params.timing_cache, device) if params.timing_cache else None
        with timing_cache(config, file):
            plan = _build(builder, network, config, monitor, device.index)
            if plan is None:  # inside the block, so that the cache keeps nothing of this build
                raise ConversionError(
                    f"TensorRT cannot build an engine from '{source.name}': {reason(errors)}"
                )
        return bytes(memoryview(plan))


def _build(builder: Any, network: Any, config: Any, monitor: Monitor, device: int) -> Any:
    """Build in a thread, so that Ctrl-C reaches this one.

    Python handles a signal when its main thread runs Python code. During a build in that thread it
    would be in calls of the monitor, and the bindings swallow what is raised there.
    """

    def work() -> Any:
        with cuda.on_device(device):
            return builder.build_serialized_network(network, config)

    with ThreadPoolExecutor(1, thread_name_prefix="tensorrt-build") as pool:
        building = pool.submit(work)
        try:
            plan = building.result()
        except BaseException as err:
            monitor.interrupted = monitor.interrupted or err  # ends the build at its next step
            raise
    if monitor.interrupted is not None:
        raise monitor.interrupted
    return plan


def _check_dla(builder: Any, params: TensorrtParams) -> None:
    if params.dla_core is not None and params.dla_core >= builder.num_DLA_cores:
        # TensorRT itself would build for the GPU, and say nothing.
        raise ParamsError(
            f"there is no DLA core {params.dla_core}: TensorRT {trt.__version__} finds "
            f"{builder.num_DLA_cores} on this device",
            hint="leave --dla-core out, and all of it runs on the GPU",
        )


def _creation_flags(params: TensorrtParams) -> int:
    if not HAS_PRECISION_FLAGS or uses_flags(params):
        return 0  # since 11 every network is strongly typed
    return 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)


def parser_errors(source: Path, params: TensorrtParams) -> list[Any]:
    """Return the parser's errors about a file, without building anything."""
    with LOGGER.collecting():
        network = trt.Builder(LOGGER).create_network(_creation_flags(params))
        parser = trt.OnnxParser(network, LOGGER)
        if parser.parse_from_file(str(source)):
            return []
        return [parser.get_error(number) for number in range(parser.num_errors)]


def _parse(network: Any, source: Path, params: TensorrtParams) -> None:
    parser = trt.OnnxParser(network, LOGGER)
    # The parser has the flag since 10.16.
    if params.dla_core is not None and "ADJUST_FOR_DLA" in trt.OnnxParserFlag.__members__:
        parser.set_flag(trt.OnnxParserFlag.ADJUST_FOR_DLA)
    if parser.parse_from_file(str(source)):
        return
    errors = [_describe(parser.get_error(n)) for n in range(parser.num_errors)]
    distinct = list(dict.fromkeys(errors)) or ["TensorRT gave no reason"]
    more = f"; and {len(distinct) - _MAX_ERRORS} more" if len(distinct) > _MAX_ERRORS else ""
    raise ConversionError(
        f"TensorRT cannot parse '{source.name}': {'; '.join(distinct[:_MAX_ERRORS])}{more}",
        hint="rewrite the operator with a rewriter, or bring a plugin with --plugins",
    )


def _describe(error: Any) -> str:
    """Return a parser's error with the node that it is about."""
    node, operator = error.node_name(), error.node_operator()
    where = f"node '{node}' ({operator}): " if node or operator else ""
    return f"{where}{error.desc().strip()} [{error.code().name}]"


def _ports(network: Any) -> tuple[list[Any], list[Any]]:
    inputs = [network.get_input(n) for n in range(network.num_inputs)]
    return inputs, [network.get_output(n) for n in range(network.num_outputs)]


def _shapes(network: Any) -> dict[str, tuple[int, ...]]:
    return {tensor.name: tuple(tensor.shape) for tensor in _ports(network)[0]}


def _check(
    network: Any, source: Path, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> None:
    """Raise if the network has other inputs or outputs than the model."""
    ports = _ports(network)
    for tensor in ports[0]:
        if tensor.is_shape_tensor:
            raise ConversionError(
                f"input '{tensor.name}' of '{source.name}' decides shapes: TensorRT builds for a "
                "range of its values, which shapes do not give",
                hint="make it a constant of the model",
            )
    for kind, tensors, specs in (("input", ports[0], inputs), ("output", ports[1], outputs)):
        found = {tensor.name: dtype_name(tensor.dtype) for tensor in tensors}
        for spec in specs:
            if spec.name not in found:
                raise ConversionError(
                    f"TensorRT's network has no {kind} '{spec.name}' as '{source.name}' has: "
                    f"found {', '.join(found) or 'none'}",
                    hint="no output may have the name of an input",
                )
            if found[spec.name] != spec.dtype:
                raise ConversionError(
                    f"TensorRT reads {kind} '{spec.name}' of '{source.name}' as "
                    f"{found[spec.name]}, wanted {spec.dtype}",
                    hint="convert it inside the model, to a dtype that TensorRT has",
                )


def _configure(config: Any, params: TensorrtParams) -> None:
    # Left alone, fp32 is computed with the 10 bits of mantissa that fp16 has.
    config.clear_flag(trt.BuilderFlag.TF32)
    if params.workspace_size:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, params.workspace_size)
    if params.optimization_level is not None:
        config.builder_optimization_level = params.optimization_level
    config.hardware_compatibility_level = _compatibility_level(params.hardware_compatibility)
    wanted = {
        "VERSION_COMPATIBLE": params.version_compatible,
        "SPARSE_WEIGHTS": params.sparsity,
        "STRIP_PLAN": params.strip_plan,
        "REFIT": params.refit,
        # A stripped engine gets back the weights that it was built with.
        "REFIT_IDENTICAL": params.strip_plan and not params.refit,
    }
    for flag, on in wanted.items():
        if on:
            config.set_flag(getattr(trt.BuilderFlag, flag))
    if params.dla_core is not None:
        config.default_device_type = trt.DeviceType.DLA
        config.DLA_core = params.dla_core
        config.set_flag(trt.BuilderFlag.GPU_FALLBACK)
    if uses_flags(params):
        config.set_flag(trt.BuilderFlag.FP16)


def _compatibility_level(name: str) -> Any:
    levels = trt.HardwareCompatibilityLevel.__members__
    if name.upper() not in levels:
        raise ParamsError(
            f"hardware_compatibility {name} is not in TensorRT {trt.__version__}: "
            f"it has {', '.join(map(str.lower, levels))}",
            hint="pip install --upgrade tensorrt, or another level",
        )
    return levels[name.upper()]


def _add_profiles(builder: Any, config: Any, profiles: Iterable[Profile]) -> None:
    for profile in profiles:
        made = builder.create_optimization_profile()
        for name, shapes in profile.items():
            made.set_shape(name, shapes.min, shapes.opt, shapes.max)
        if config.add_optimization_profile(made) < 0:
            described = ", ".join(f"{name} {p.min} to {p.max}" for name, p in profile.items())
            raise ConversionError(f"TensorRT refuses the optimisation profile {described}")
