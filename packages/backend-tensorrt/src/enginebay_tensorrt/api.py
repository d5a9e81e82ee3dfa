"""TensorRT without artifacts: build an engine from ONNX, save it, load it.

plan = from_onnx("model.onnx", precision="fp16")
save(plan, "model.engine")
wrapper = load("model.engine", precision="fp16")
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import enginebay as eb
from enginebay.errors import ParamsError, UsageError
from enginebay_tensorrt.params import TensorrtParams

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from enginebay_tensorrt.wrapper import TensorrtWrapper


def from_onnx(
    path: str | Path,
    *,
    calibration_data: Any = None,
    progress: Callable[[str], None] | None = None,
    **params: Any,
) -> bytes:
    """Build an engine.

    Args:
        path: An ``.onnx`` file.
        calibration_data: What int8 and fp8 are calibrated with: an :class:`enginebay.DataSet`, or
            what one is made of.
        progress: Called with a short text at each stage.
        **params: Fields of :class:`~enginebay_tensorrt.params.TensorrtParams`.

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
    from enginebay_tensorrt.convert import build
    from enginebay_tensorrt.plugin_libraries import load_plugins
    from enginebay_tensorrt.precision import check_precision

    given = TensorrtParams(**params)
    check_precision(given)
    ir = read_onnx(Path(path))
    engine = eb.get_backend("tensorrt")
    engine.check_data(given, has_data=calibration_data is not None)
    calibration = engine.calibration(ir, given, calibration_data)
    load_plugins(map(Path, given.plugins))
    with TemporaryDirectory(prefix="enginebay-tensorrt-") as folder:
        _, plan = build(
            ir,
            given,
            samples=calibration,
            shapes={},
            folder=Path(folder),
            progress=progress or _ignore,
        )
        return plan


def save(plan: bytes, path: str | Path) -> None:
    """Write an engine to a file."""
    Path(path).write_bytes(plan)


def load(
    path: str | Path,
    *,
    weights: str | Path | None = None,
    output_names: Sequence[str] = (),
    **params: Any,
) -> TensorrtWrapper:
    """Load an engine from a file.

    Args:
        path: What :func:`save` wrote.
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
    from enginebay_tensorrt.plugin_libraries import load_plugins
    from enginebay_tensorrt.wrapper import TensorrtWrapper

    given = TensorrtParams(**params)
    load_plugins(map(Path, given.plugins))
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


def _typed(weights: Path, params: TensorrtParams, folder: Path) -> Path:
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
