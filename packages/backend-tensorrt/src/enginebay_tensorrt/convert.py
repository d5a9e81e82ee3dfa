"""Conversion of ONNX to an engine: typed, parsed, built for this device."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO

from enginebay.errors import BackendUnavailableError
from enginebay_tensorrt import cuda
from enginebay_tensorrt.builder import build_plan
from enginebay_tensorrt.library import library_of
from enginebay_tensorrt.params import TensorrtRtxParams
from enginebay_tensorrt.plugin_libraries import copy_plugins, load_plugins
from enginebay_tensorrt.portability import capabilities, needs_device
from enginebay_tensorrt.precision import check_precision, typed_graph
from enginebay_tensorrt.simulation import keep_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from enginebay import IRModel
    from enginebay.authors import ShapeProfile
    from enginebay.hooks import CalibrationData, ConvertRequest
    from enginebay_tensorrt.params import Params


def convert(request: ConvertRequest[Params]) -> list[Path]:
    """Write the engine, and what has to lie beside it, into the work folder.

    Returns:
        The engine, then a stripped engine's weights, then plugin libraries.

    Raises:
        ParamsError: The installed TensorRT cannot do what is requested, or calibration data or
            shapes are missing or do not fit.
        MissingDependencyError: The precision needs a package that is not installed.
        BackendUnavailableError: CUDA finds no such device.
        ConversionError: TensorRT does not know an operator, or cannot build.
    """
    params = request.params
    check_params(params)
    target = request.work_dir / params.file_name
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        TemporaryDirectory(prefix="typed-", dir=request.work_dir) as temporary,
        target.open("wb") as file,
    ):
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
            keep_graph(source, request.simulation)
        weights = _keep_weights(source, request.work_dir / params.weights_file, params)
    return [target, *weights, *copy_plugins(params.plugins, request.work_dir)]


def check_params(params: Params) -> None:
    """Check what can be checked before any work is done, and load the plugins.

    Raises:
        ParamsError: The installed library does not have what is requested.
        BackendUnavailableError: What is requested cannot be built without a GPU.
        ConversionError: A plugin library does not load.
    """
    library = library_of(params)
    check_precision(params)
    if isinstance(params, TensorrtRtxParams):
        capabilities(library, params)
        _check_builder(params)
    load_plugins(library, map(Path, params.plugins))


def _check_builder(params: TensorrtRtxParams) -> None:
    if (params.refit or params.strip_plan) and not cuda.has_driver():
        # Seen with 1.7.1: its compiler calls the driver for weights that are apart.
        raise BackendUnavailableError(
            "engines whose weights can be replaced are built on a GPU: this machine has "
            f"{cuda.NO_DRIVER}",
            hint="leave out --refit and --strip-plan",
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
    """Type the graph and build it into a file.

    Args:
        ir: The model.
        params: How to build.
        file: What the serialized engine is written to.
        samples: What it is calibrated with, where the precision needs some.
        keep: Names of nodes that stay in fp32 then.
        shapes: The inputs' shapes as far as the deployment knows them.
        folder: The folder for a graph that had to be changed.
        progress: Called with a short text at each stage.

    Returns:
        The graph that was built.
    """
    # Before calibration, which can take long.
    device = cuda.device(params) if needs_device(params) else None
    source = typed_graph(ir.path, params, samples, folder, progress, keep)
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


def _keep_weights(source: Path, target: Path, params: Params) -> list[Path]:
    """Write the graph that an engine without weights was built from."""
    if not params.strip_plan:
        return []
    import onnx

    model = onnx.load(source)
    if model.ByteSize() < 1 << 30:  # a protobuf file ends at 2 GB
        onnx.save(model, target)
        return [target]
    data = target.with_name(f"{target.name}.data")
    data.unlink(missing_ok=True)  # onnx would append to it
    onnx.save(model, target, save_as_external_data=True, location=data.name)
    return [target, data]
