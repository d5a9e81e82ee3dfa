"""Build a serialized engine from an ``.onnx`` file."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING, BinaryIO

from enginebay.errors import ConversionError, ParamsError
from enginebay_tensorrt import cuda
from enginebay_tensorrt.library import get_library
from enginebay_tensorrt.logger import join_errors
from enginebay_tensorrt.monitor import Monitor
from enginebay_tensorrt.parser import (
    check_network_ports,
    make_creation_flags,
    parse,
    read_input_shapes,
)
from enginebay_tensorrt.plan_file import write_plan
from enginebay_tensorrt.portability import resolve_capabilities
from enginebay_tensorrt.precision import uses_flags
from enginebay_tensorrt.products import TENSORRT_RTX
from enginebay_tensorrt.profiles import resolve_profiles_for
from enginebay_tensorrt.timing_cache import locate_cache_file, use_timing_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import tensorrt as trt

    from enginebay import TensorSpec
    from enginebay.authors.arrays import ShapeProfile
    from enginebay_tensorrt.library import Library
    from enginebay_tensorrt.params import Params
    from enginebay_tensorrt.profiles import Profile


def build_plan(
    source: Path,
    params: Params,
    device: cuda.Device | None,
    file: BinaryIO,
    *,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    shapes: Mapping[str, ShapeProfile],
    progress: Callable[[str], None],
) -> None:
    """Parse the model, configure the builder, and write the engine to a file.

    Args:
        source: An ``.onnx`` file whose tensors have the types that the engine computes in.
        params: The backend's parameters.
        device: The GPU that TensorRT builds on; None if the build needs no GPU.
        file: The file to write the plan to; TensorRT calls a serialized engine a plan.
        inputs: The model's inputs, to be compared with the inputs of the parsed network.
        outputs: The model's outputs, to be compared with the outputs of the parsed network.
        shapes: The known shape ranges of inputs, by name.
        progress: Called with the name of each phase of the build.

    Raises:
        ParamsError: The shapes of an input are missing, or do not fit the network.
        ConversionError: TensorRT does not support an operator, or cannot build the engine.
        OSError: The file cannot be written.
    """
    library = get_library(params)
    trt = library.trt
    with _use_device(device), library.logger.collecting() as errors:
        builder = trt.Builder(library.logger)
        _check_dla(library, builder, params)
        network = builder.create_network(make_creation_flags(library, params))
        parse(library, network, source, params)
        check_network_ports(library, network, source, inputs, outputs)
        monitor = library.derive(Monitor)(progress)
        config = builder.create_builder_config()
        config.progress_monitor = monitor
        _configure_builder(library, config, params)
        _add_profiles(
            library,
            builder,
            config,
            resolve_profiles_for(read_input_shapes(network), params, shapes),
        )
        with use_timing_cache(config, _cache_file(library, params, device)):

            def write() -> bool:
                # Again, because CUDA's current device is set for each thread separately.
                with _use_device(device):
                    return write_plan(library, builder, network, config, file, monitor)

            # Raised inside the block, so that no measurement of this build is cached.
            if not _build_in_thread(write, monitor):
                raise ConversionError(
                    f"{library.product.title} cannot build an engine from '{source.name}': "
                    f"{join_errors(errors)}",
                    hint=_build_hint(params, device),
                )


def _build_hint(params: Params, device: cuda.Device | None) -> str | None:
    if params.compute_capability and device is None:
        return "another --precision, or other GPUs in --compute-capability"
    if params.workspace_size:
        return f"a larger --workspace-size than {params.workspace_size}, or none"
    return None


def build_identity(params: Params) -> int:
    """Build, without a GPU, an engine that copies its input; return the engine's size in bytes.

    Raises:
        ConversionError: The builder does not work on this machine.
        ParamsError: The library does not support a compute capability in the parameters.
    """
    library = get_library(params)
    trt = library.trt
    with library.logger.collecting() as errors:
        builder = trt.Builder(library.logger)
        network = builder.create_network(make_creation_flags(library, params))
        source = network.add_input("x", trt.DataType.FLOAT, (4,))
        network.mark_output(network.add_identity(source).get_output(0))
        config = builder.create_builder_config()
        _configure_builder(library, config, params)
        plan = builder.build_serialized_network(network, config)
        if plan is None:
            raise ConversionError(f"{library.title} cannot build an engine: {join_errors(errors)}")
        return len(memoryview(plan))


def _use_device(device: cuda.Device | None) -> AbstractContextManager[None]:
    return nullcontext() if device is None else cuda.on_device(device.index)


def _cache_file(library: Library, params: Params, device: cuda.Device | None) -> Path | None:
    if params.timing_cache is None or device is None:
        return None
    return locate_cache_file(params.timing_cache, device, library.version)


def _build_in_thread(build: Callable[[], bool], monitor: Monitor) -> bool:
    """Return the result of ``build``, called in another thread so that Ctrl-C ends the wait."""
    # Python handles a signal when its main thread runs Python code. During a build in the main
    # thread that would be inside the monitor, and the bindings swallow exceptions raised there.
    with ThreadPoolExecutor(1, thread_name_prefix="tensorrt-build") as pool:
        building = pool.submit(build)
        try:
            built = building.result()
        except BaseException as err:
            monitor.interrupted = monitor.interrupted or err  # stops the build at its next step
            raise
    if monitor.interrupted is not None:
        raise monitor.interrupted
    return built


def _check_dla(library: Library, builder: trt.Builder, params: Params) -> None:
    if params.dla_core is not None and params.dla_core >= builder.num_DLA_cores:
        # TensorRT itself would build for the GPU without a warning.
        raise ParamsError(
            f"unknown DLA core {params.dla_core}: {library.title} found "
            f"{builder.num_DLA_cores} DLA cores on this device",
            hint="remove --dla-core to run everything on the GPU",
        )


def _configure_builder(library: Library, config: trt.IBuilderConfig, params: Params) -> None:
    trt = library.trt
    # By default TensorRT computes fp32 as TF32, with the 10 mantissa bits of fp16.
    config.clear_flag(trt.BuilderFlag.TF32)
    if params.workspace_size:
        config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, params.workspace_size)
    if params.optimization_level is not None:
        config.builder_optimization_level = params.optimization_level
    if params.hardware_compatibility != "none":
        config.hardware_compatibility_level = _compatibility_level(library, params)
    if library.product is TENSORRT_RTX:
        _set_capabilities(library, config, params)
    flags = {
        "VERSION_COMPATIBLE": params.version_compatible,
        "SPARSE_WEIGHTS": params.sparsity,
        "STRIP_PLAN": params.strip_plan,
        "REFIT": params.refit,
        # A stripped engine is refitted with the weights that it was built with.
        "REFIT_IDENTICAL": params.strip_plan and not params.refit,
    }
    for flag, on in flags.items():
        if on:
            config.set_flag(getattr(trt.BuilderFlag, flag))
    if params.dla_core is not None:
        # DLA supports few layers: the others run on the GPU.
        config.default_device_type = trt.DeviceType.DLA
        config.DLA_core = params.dla_core
        config.set_flag(trt.BuilderFlag.GPU_FALLBACK)
    if uses_flags(params):
        config.set_flag(trt.BuilderFlag.FP16)


def _set_capabilities(library: Library, config: trt.IBuilderConfig, params: Params) -> None:
    kinds = library.trt.ComputeCapability.__members__
    names = resolve_capabilities(library, params)
    config.num_compute_capabilities = len(names)
    for number, name in enumerate(names):
        config.set_compute_capability(kinds[name], number)


def _compatibility_level(library: Library, params: Params) -> trt.HardwareCompatibilityLevel:
    name = params.hardware_compatibility
    levels = library.trt.HardwareCompatibilityLevel.__members__
    if name.upper() not in levels:
        raise ParamsError(
            f"hardware_compatibility '{name}' is not supported by {library.title}; "
            f"available: {', '.join(map(str.lower, levels))}",
            hint="pip install --upgrade tensorrt, or use an available value",
        )
    return levels[name.upper()]


def _add_profiles(
    library: Library,
    builder: trt.Builder,
    config: trt.IBuilderConfig,
    profiles: Iterable[Profile],
) -> None:
    for profile in profiles:
        trt_profile = builder.create_optimization_profile()
        for name, shapes in profile.items():
            trt_profile.set_shape(name, shapes.min, shapes.opt, shapes.max)
        with library.logger.collecting() as errors:
            if config.add_optimization_profile(trt_profile) >= 0:
                continue
        described = ", ".join(f"{name} {p.min} to {p.max}" for name, p in profile.items())
        raise ConversionError(
            f"{library.product.title} rejects the optimisation profile {described}: "
            f"{join_errors(errors)}"
        )
