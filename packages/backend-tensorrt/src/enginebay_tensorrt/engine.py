"""Load a serialized engine on the GPU that the parameter ``device`` selects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from enginebay import TensorSpec
from enginebay.errors import ConversionError
from enginebay_tensorrt import cuda
from enginebay_tensorrt.dtypes import get_dtype_name
from enginebay_tensorrt.library import Library, get_library
from enginebay_tensorrt.logger import join_errors

if TYPE_CHECKING:
    from pathlib import Path

    import tensorrt as trt

    from enginebay_tensorrt.params import Params


class Tensor(msgspec.Struct, frozen=True):
    """An input or output of an engine.

    Attributes:
        spec: The name, dtype and dimensions; each dynamic dimension has a different name.
        profiles: For an input, the smallest and the largest shape in each optimisation profile.
    """

    spec: TensorSpec
    profiles: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()


class Engine(msgspec.Struct, frozen=True):
    """A loaded engine with the properties that each call needs.

    Attributes:
        library: The installed TensorRT, which loaded the engine.
        cuda_engine: The ``ICudaEngine``.
        runtime: The ``Runtime`` of the engine, which must exist as long as the engine.
        device: The GPU that the engine runs on.
        inputs: The inputs by name.
        outputs: The outputs by name.
    """

    library: Library
    cuda_engine: Any
    runtime: Any
    device: cuda.Device
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]

    @property
    def is_static(self) -> bool:
        """True if the shapes of all inputs and outputs are fixed."""
        return all(t.spec.is_static for t in (*self.inputs.values(), *self.outputs.values()))


def load_engine(path: Path, params: Params, weights: Path | None = None) -> Engine:
    """Deserialize the engine in a file.

    Args:
        path: A file that :func:`~enginebay_tensorrt.builder.build_plan` wrote.
        params: The parameters that the engine was built with.
        weights: The ``.onnx`` file with the weights of a stripped engine.

    Raises:
        BackendUnavailableError: CUDA does not find the device.
        ConversionError: TensorRT rejects the engine, or the weights do not fit the engine.
    """
    library = get_library(params)
    device = cuda.device(params)
    with cuda.on_device(device.index):
        runtime = library.trt.Runtime(library.logger)
        if params.version_compatible:
            runtime.engine_host_code_allowed = True  # such an engine includes its own runtime
        if params.dla_core is not None:
            runtime.DLA_core = params.dla_core
        with library.logger.collecting() as errors:
            cuda_engine = runtime.deserialize_cuda_engine(path.read_bytes())
        if cuda_engine is None:
            raise ConversionError(
                f"{library.title} cannot load '{path.name}': {join_errors(errors)}",
                hint="build the engine again on this machine",
            )
        if weights is not None:
            refit(library, cuda_engine, weights)
        inputs, outputs = _read_tensors(library, cuda_engine)
        return Engine(library, cuda_engine, runtime, device, inputs, outputs)


def refit(library: Library, cuda_engine: trt.ICudaEngine, weights: Path) -> None:
    """Replace an engine's weights by the weights in an ``.onnx`` file of the same graph.

    Raises:
        ConversionError: The engine cannot be refitted, or was built from another graph.
    """
    trt, logger = library.trt, library.logger
    with logger.collecting() as errors:
        refitter = trt.Refitter(cuda_engine, logger)
        parser = trt.OnnxParserRefitter(refitter, logger)
        if not (parser.refit_from_file(str(weights)) and refitter.refit_cuda_engine()):
            messages = [parser.get_error(n).desc() for n in range(parser.num_errors)]
            raise ConversionError(
                f"the weights in '{weights.name}' do not fit the engine: "
                f"{join_errors(messages + errors)}"
            )


def _read_tensors(
    library: Library, cuda_engine: trt.ICudaEngine
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    location, mode = library.trt.TensorLocation, library.trt.TensorIOMode
    inputs: dict[str, Tensor] = {}
    outputs: dict[str, Tensor] = {}
    for number in range(cuda_engine.num_io_tensors):
        name = cuda_engine.get_tensor_name(number)
        if cuda_engine.get_tensor_location(name) != location.DEVICE:
            raise ConversionError(
                f"the engine requires the tensor '{name}' in host memory, which is not supported"
            )
        if cuda_engine.get_tensor_mode(name) == mode.INPUT:
            inputs[name] = Tensor(_read_spec(cuda_engine, name), _read_profiles(cuda_engine, name))
        else:
            outputs[name] = Tensor(_read_spec(cuda_engine, name))
    return inputs, outputs


def _read_spec(cuda_engine: trt.ICudaEngine, name: str) -> TensorSpec:
    dims = cuda_engine.get_tensor_shape(name)
    return TensorSpec(
        name,
        get_dtype_name(cuda_engine.get_tensor_dtype(name)),
        # An engine does not contain the names of dynamic dimensions.
        tuple(f"{name}_{n}" if dim == -1 else int(dim) for n, dim in enumerate(dims)),
    )


def _read_profiles(
    cuda_engine: trt.ICudaEngine, name: str
) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    numbers = range(cuda_engine.num_optimization_profiles)
    dims = tuple(int(dim) for dim in cuda_engine.get_tensor_shape(name))
    if -1 not in dims:
        return tuple((dims, dims) for _ in numbers)  # profiles do not contain fixed shapes
    shapes = (cuda_engine.get_tensor_profile_shape(name, number) for number in numbers)
    return tuple((tuple(smallest), tuple(largest)) for smallest, _, largest in shapes)
