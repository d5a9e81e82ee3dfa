"""Convert an ONNX model to an engine."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO

from enginebay.errors import BackendUnavailableError
from enginebay_tensorrt import cuda
from enginebay_tensorrt.builder import build_plan
from enginebay_tensorrt.library import get_library
from enginebay_tensorrt.params import TensorrtRtxParams
from enginebay_tensorrt.plugin_libraries import copy_plugins, load_plugins
from enginebay_tensorrt.portability import needs_device, resolve_capabilities
from enginebay_tensorrt.precision import check_precision, write_typed_graph
from enginebay_tensorrt.simulation import link_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from enginebay import IRModel
    from enginebay.authors.arrays import ShapeProfile
    from enginebay.hooks import CalibrationData, ConvertRequest
    from enginebay_tensorrt.params import Params


def convert(request: ConvertRequest[Params]) -> list[Path]:
    """Write the engine, and the files that the engine needs, into the work folder.

    Returns:
        The paths of the engine, of the weights if the engine is stripped (built without weights),
        and of the plugin libraries.

    Raises:
        ParamsError: The installed TensorRT does not support the parameters; or calibration data or
            shapes are missing, or do not fit the model.
        MissingDependencyError: The precision needs a package that is not installed.
        BackendUnavailableError: CUDA does not find the device.
        ConversionError: TensorRT does not support an operator, or cannot build the engine.
    """
    params = request.params
    check_params(params)
    target = request.work_dir / params.file_name
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        TemporaryDirectory(prefix="typed-", dir=request.work_dir) as temporary,
        target.open("wb") as file,
    ):
        # If the engine cannot run here, ONNX Runtime runs the graph from the folder instead.
        folder = request.simulation or Path(temporary)
        source = build(
            request.ir,
            params,
            file,
            samples=request.calibration,
            keep=request.keep,
            shapes=request.shapes,
            folder=folder,
            progress=request.progress,
        )
        if request.simulation is not None:
            link_graph(source, request.simulation)
        weights = _save_weights(source, request.work_dir / params.weights_file, params)
    return [target, *weights, *copy_plugins(params.plugins, request.work_dir)]


def check_params(params: Params) -> None:
    """Check the parameters before the build starts, and load the plugin libraries.

    Raises:
        ParamsError: The installed library does not support the parameters.
        BackendUnavailableError: Building with these parameters requires a GPU.
        ConversionError: A plugin library does not load.
    """
    library = get_library(params)
    check_precision(params)
    if isinstance(params, TensorrtRtxParams):
        resolve_capabilities(library, params)
        _check_builder(params)
    load_plugins(library, map(Path, params.plugins))


def _check_builder(params: TensorrtRtxParams) -> None:
    if (params.refit or params.strip_plan) and not cuda.has_driver():
        # The compiler of 1.7.1 calls the driver for weights outside of the engine.
        raise BackendUnavailableError(
            "building an engine whose weights can be replaced requires a GPU: this machine has "
            f"{cuda.NO_DRIVER}",
            hint="remove --refit and --strip-plan",
        )


def build(
    ir: IRModel,
    params: Params,
    file: BinaryIO,
    *,
    samples: CalibrationData | None,
    keep: tuple[str, ...] = (),
    shapes: Mapping[str, ShapeProfile],
    folder: Path,
    progress: Callable[[str], None],
) -> Path:
    """Convert the graph to the precision of the parameters, and build an engine from it.

    Args:
        ir: The model.
        params: The backend's parameters.
        file: The file for the serialized engine.
        samples: The calibration data, if the precision requires calibration.
        keep: Names of nodes to leave in fp32.
        shapes: The known shape ranges of inputs, by name.
        folder: The folder for the converted graph.
        progress: Called with a short text at each stage.

    Returns:
        The ``.onnx`` file that the engine was built from: the model's file or a converted copy.
    """
    # Find the device before calibration, which can take long.
    device = cuda.device(params) if needs_device(params) else None
    source = write_typed_graph(ir.path, params, samples, folder, progress, keep)
    build_plan(
        source,
        params,
        device,
        file,
        inputs=ir.inputs,
        outputs=ir.outputs,
        shapes=shapes,
        progress=progress,
    )
    return source


def _save_weights(source: Path, target: Path, params: Params) -> list[Path]:
    """Save the weights of a stripped engine (built without weights); return the new files.

    Write nothing and return an empty list if the engine is not stripped.
    """
    if not params.strip_plan:
        return []
    import onnx

    model = onnx.load(source)
    if model.ByteSize() < 1 << 30:  # well below the limit of protobuf, 2 GB
        onnx.save(model, target)
        return [target]
    data = target.with_name(f"{target.name}.data")
    data.unlink(missing_ok=True)  # onnx would append to it
    onnx.save(model, target, save_as_external_data=True, location=data.name)
    return [target, data]
