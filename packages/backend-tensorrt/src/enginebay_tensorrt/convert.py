"""Conversion of ONNX to an engine: typed, parsed, built for this device."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from enginebay_tensorrt import cuda
from enginebay_tensorrt.builder import build_plan
from enginebay_tensorrt.plugin_libraries import copy_plugins, load_plugins
from enginebay_tensorrt.precision import check_precision, typed_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from enginebay import IRModel
    from enginebay.authors import ShapeProfile
    from enginebay.hooks import CalibrationData, ConvertRequest
    from enginebay_tensorrt.params import TensorrtParams


def convert(request: ConvertRequest[TensorrtParams]) -> list[Path]:
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
    check_precision(params)
    load_plugins(map(Path, params.plugins))
    target = request.work_dir / params.file_name
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="typed-", dir=request.work_dir) as folder:
        source, plan = build(
            request.ir,
            params,
            samples=request.calibration,
            keep=request.keep,
            shapes=request.shapes,
            folder=Path(folder),
            progress=request.progress,
        )
        target.write_bytes(plan)
        weights = _keep_weights(source, request.work_dir / params.weights_file, params)
    return [target, *weights, *copy_plugins(params.plugins, request.work_dir)]


def build(
    ir: IRModel,
    params: TensorrtParams,
    *,
    samples: CalibrationData | None,
    keep: tuple[str, ...] = (),
    shapes: Mapping[str, ShapeProfile],
    folder: Path,
    progress: Callable[[str], None],
) -> tuple[Path, bytes]:
    """Type the graph and build it.

    Args:
        ir: The model.
        params: How to build.
        samples: What it is calibrated with, where the precision needs some.
        keep: Names of nodes that stay in fp32 then.
        shapes: The inputs' shapes as far as the deployment knows them.
        folder: The folder for a graph that had to be changed.
        progress: Called with a short text at each stage.

    Returns:
        The graph that was built, and the serialized engine.
    """
    device = cuda.device(params.device_index)  # before calibration, which can take long
    source = typed_graph(ir.path, params, samples, folder, progress, keep)
    plan = build_plan(
        source,
        params,
        device,
        inputs=ir.inputs,
        outputs=ir.outputs,
        shapes=shapes,
        progress=progress,
    )
    return source, plan


def _keep_weights(source: Path, target: Path, params: TensorrtParams) -> list[Path]:
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
