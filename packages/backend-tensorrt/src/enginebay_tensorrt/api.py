"""TensorRT without artifacts: build an engine from ONNX, save it, load it.

``backend="tensorrt-rtx"`` selects TensorRT for RTX.

plan = from_onnx("model.onnx", precision="fp16")
save(plan, "model.engine")
wrapper = load("model.engine", precision="fp16")
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import enginebay as eb
from enginebay.errors import ParamsError, UsageError
from enginebay_tensorrt.params import TensorrtParams, TensorrtRtxParams

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from enginebay_tensorrt.params import Params
    from enginebay_tensorrt.wrapper import TensorrtWrapper

BackendName: TypeAlias = Literal["tensorrt", "tensorrt-rtx"]

_PARAMS: Final[dict[BackendName, type[Params]]] = {
    "tensorrt": TensorrtParams,
    "tensorrt-rtx": TensorrtRtxParams,
}


def from_onnx(
    path: str | Path,
    *,
    backend: BackendName = "tensorrt",
    calibration_data: object = None,
    progress: Callable[[str], None] | None = None,
    **params: Any,
) -> bytes:
    """Build an engine from an ``.onnx`` file.

    Args:
        path: An ``.onnx`` file.
        backend: ``tensorrt`` or ``tensorrt-rtx``.
        calibration_data: The data for precision int8 or fp8: an :class:`enginebay.DataSet`, or a
            value that :class:`enginebay.DataSet` accepts.
        progress: Called with a short text at each stage of the build.
        **params: Fields of :class:`~enginebay_tensorrt.params.TensorrtParams`, or of
            :class:`~enginebay_tensorrt.params.TensorrtRtxParams`.

    Returns:
        The serialized engine. To load an engine that was built with ``strip_plan``, :func:`load`
        requires the ``.onnx`` file too.

    Raises:
        BackendUnavailableError: CUDA does not find the device.
        ParamsError: A parameter does not fit the model or the installed TensorRT.
        ConversionError: TensorRT does not support an operator, or cannot build the engine.

    Example:
        >>> data = [{"x": image} for image in images]  # doctest: +SKIP
        >>> plan = from_onnx("m.onnx", precision="int8", calibration_data=data)  # doctest: +SKIP
    """
    from enginebay.authors.files import read_onnx
    from enginebay_tensorrt.convert import build, check_params

    parameters = _PARAMS[backend](**params)
    check_params(parameters)
    ir = read_onnx(Path(path))
    engine = eb.get_backend(backend)
    engine.check_data(parameters, has_data=calibration_data is not None)
    calibration = engine.calibration(ir, parameters, calibration_data)
    plan = BytesIO()
    with TemporaryDirectory(prefix="enginebay-tensorrt-") as folder:
        build(
            ir,
            parameters,
            plan,
            samples=calibration,
            shapes={},
            folder=Path(folder),
            progress=progress or _ignore_progress,
        )
    return plan.getvalue()


def save(plan: bytes, path: str | Path) -> None:
    """Write a serialized engine to a file atomically.

    Raises:
        EnginebayError: The disk is full or read-only; an existing file is left unchanged.
    """
    from enginebay.authors.files import write_whole

    write_whole(Path(path), plan)


def load(
    path: str | Path,
    *,
    backend: BackendName = "tensorrt",
    weights: str | Path | None = None,
    output_names: Sequence[str] = (),
    **params: Any,
) -> TensorrtWrapper:
    """Load an engine from a file.

    Args:
        path: The file that :func:`save` wrote.
        backend: The backend that built the engine.
        weights: The ``.onnx`` file with the weights of an engine built with ``strip_plan``, or with
            new weights for an engine built with ``refit``. The file always has fp32 weights.
        output_names: The names of the outputs to return, in order; by default all outputs in the
            engine's order.
        **params: The parameters that the engine was built with.

    Raises:
        BackendUnavailableError: CUDA does not find the device.
        ConversionError: TensorRT rejects the engine, which may be for another version or device.
        ParamsError: ``weights`` is set, but the engine has precision int8 or fp8.
        UsageError: The engine has no output with one of the names.
    """
    from enginebay_tensorrt.engine import load_engine
    from enginebay_tensorrt.library import get_library
    from enginebay_tensorrt.plugin_libraries import load_plugins
    from enginebay_tensorrt.wrapper import TensorrtWrapper

    parameters = _PARAMS[backend](**params)
    load_plugins(get_library(parameters), map(Path, parameters.plugins))
    with TemporaryDirectory(prefix="enginebay-tensorrt-") as folder:
        typed = _write_typed_weights(Path(weights), parameters, Path(folder)) if weights else None
        engine = load_engine(Path(path), parameters, typed)
    for name in output_names:
        if name not in engine.outputs:
            raise UsageError(f"unknown output '{name}'; available: {', '.join(engine.outputs)}")
    outputs = [engine.outputs[name].spec for name in output_names]
    return TensorrtWrapper(engine, parameters, outputs=outputs)


def _write_typed_weights(weights: Path, params: Params, folder: Path) -> Path:
    """Return an ``.onnx`` file whose weights are those of ``weights`` in the engine's precision."""
    from enginebay_tensorrt.precision import write_typed_graph

    if params.precision in ("int8", "fp8"):
        raise ParamsError(
            f"an engine of precision {params.precision} cannot load weights from "
            f"'{weights.name}': the engine was built from a calibrated graph",
            hint="use eb.convert and eb.load: the artifact includes the weights",
        )
    return write_typed_graph(weights, params, None, folder, _ignore_progress)


def _ignore_progress(_text: str) -> None:
    """Ignore a progress message."""
