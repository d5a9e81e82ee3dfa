"""TensorRT without artifacts: build an engine from ONNX, save it, load it.

With ``backend="tensorrt-rtx"`` it is TensorRT for RTX.

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
    calibration_data: Any = None,
    progress: Callable[[str], None] | None = None,
    **params: Any,
) -> bytes:
    """Build an engine.

    Args:
        path: An ``.onnx`` file.
        backend: ``tensorrt`` or ``tensorrt-rtx``.
        calibration_data: What int8 and fp8 are calibrated with: an :class:`enginebay.DataSet`, or
            what one is made of.
        progress: Called with a short text at each stage.
        **params: Fields of :class:`~enginebay_tensorrt.params.TensorrtParams`, or of
            :class:`~enginebay_tensorrt.params.TensorrtRtxParams`.

    Returns:
        The serialized engine. One with ``strip_plan`` needs the ``.onnx`` file to be loaded.

    Raises:
        BackendUnavailableError: CUDA finds no such device.
        ParamsError: A parameter does not fit the model or the installed TensorRT.
        ConversionError: TensorRT does not know an operator, or cannot build.

    Example:
        >>> data = [{"x": image} for image in images]  # doctest: +SKIP
        >>> plan = from_onnx("m.onnx", precision="int8", calibration_data=data)  # doctest: +SKIP
    """
    from enginebay.authors import read_onnx
    from enginebay_tensorrt.convert import build, check_params

    given = _PARAMS[backend](**params)
    check_params(given)
    ir = read_onnx(Path(path))
    engine = eb.get_backend(backend)
    engine.check_data(given, has_data=calibration_data is not None)
    calibration = engine.calibration(ir, given, calibration_data)
    plan = BytesIO()
    with TemporaryDirectory(prefix="enginebay-tensorrt-") as folder:
        build(
            ir,
            given,
            plan,
            samples=calibration,
            shapes={},
            folder=Path(folder),
            progress=progress or _ignore,
        )
    return plan.getvalue()


def save(plan: bytes, path: str | Path) -> None:
    """Write an engine to a file, whole or not at all.

    Raises:
        EnginebayError: The disk is full or read-only; a file that was there before is as it was.
    """
    from enginebay.authors import write_whole

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
        path: What :func:`save` wrote.
        backend: What built it.
        weights: The ``.onnx`` file with the weights of an engine that was stripped of them, or new
            ones for an engine that was built with ``refit``; in fp32, whatever the precision.
        output_names: The order of the outputs; the engine's own by default.
        **params: The parameters that it was built with.

    Raises:
        BackendUnavailableError: CUDA finds no such device.
        ConversionError: TensorRT refuses the engine: it is of another version or device.
        ParamsError: Weights are given for an engine with Q/DQ nodes.
        UsageError: The engine has no output of such a name.
    """
    from enginebay_tensorrt.engine import load_engine
    from enginebay_tensorrt.library import library_of
    from enginebay_tensorrt.plugin_libraries import load_plugins
    from enginebay_tensorrt.wrapper import TensorrtWrapper

    given = _PARAMS[backend](**params)
    load_plugins(library_of(given), map(Path, given.plugins))
    with TemporaryDirectory(prefix="enginebay-tensorrt-") as folder:
        typed = _typed(Path(weights), given, Path(folder)) if weights else None
        engine = load_engine(Path(path), given, typed)
    for name in output_names:
        if name not in engine.outputs:
            raise UsageError(
                f"the engine has no output '{name}': it has {', '.join(engine.outputs)}"
            )
    outputs = [engine.outputs[name].spec for name in output_names]
    return TensorrtWrapper(engine, given, outputs=outputs)


def _typed(weights: Path, params: Params, folder: Path) -> Path:
    """Return the weights in the precision that the engine was built in."""
    from enginebay_tensorrt.precision import typed_graph

    if params.precision in ("int8", "fp8"):
        raise ParamsError(
            f"an engine of precision {params.precision} takes no weights from '{weights.name}': it "
            "was built from a calibrated graph",
            hint="eb.convert keeps that graph in the artifact, and eb.load puts its weights back",
        )
    return typed_graph(weights, params, None, folder, _ignore)


def _ignore(_text: str) -> None:
    """Ignore a progress message."""
