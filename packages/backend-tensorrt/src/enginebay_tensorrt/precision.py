"""Set an engine's precision, by the types of the graph's tensors or by builder flags.

=========  ===============================================  ===================================
           strongly typed (always in TensorRT 11)           by flags (DLA in TensorRT 10)
=========  ===============================================  ===================================
fp32       the graph unchanged, TF32 off                    –
fp16       the graph is converted                           ``FP16``
bf16       the graph is converted                           –
int8, fp8  Q/DQ nodes                                       –
=========  ===============================================  ===================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.authors.files import to_half
from enginebay.errors import ParamsError
from enginebay_tensorrt.library import get_library
from enginebay_tensorrt.quantize import quantize

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from enginebay.hooks import CalibrationData
    from enginebay_tensorrt.params import Params


def uses_flags(params: Params) -> bool:
    """Return True if a builder flag, and not the types in the graph, determines the precision."""
    # For DLA only, which does not accept strongly typed networks up to TensorRT 10.7.
    return params.dla_core is not None and get_library(params).has_precision_flags


def check_precision(params: Params) -> None:
    """Raise an error if the precision cannot be used with DLA.

    Raises:
        ParamsError: DLA is requested, and the precision is not fp16.
    """
    # DLA supports int8 only with implicit quantisation: NVIDIA/Model-Optimizer#1661.
    if params.dla_core is not None and params.precision != "fp16":
        raise ParamsError(
            f"DLA computes only in fp16: expected precision fp16, found {params.precision}",
            hint="--precision fp16",
        )


def write_typed_graph(
    source: Path,
    params: Params,
    samples: CalibrationData | None,
    folder: Path,
    progress: Callable[[str], None],
    keep: tuple[str, ...] = (),
) -> Path:
    """Write an ``.onnx`` file whose tensors have the types that the network computes in.

    Args:
        source: The ``.onnx`` file of the exported model.
        params: The parameters, which include the precision.
        samples: The calibration data of int8 and fp8.
        folder: The folder for a new file, if one is needed.
        progress: Called with a short text before long work.
        keep: Names of nodes to leave in fp32 with int8 and fp8.

    Returns:
        The new file, or ``source`` if the types do not change.

    Raises:
        MissingDependencyError: The precision needs a package that is not installed.
        ConversionError: The model cannot be converted.
    """
    if uses_flags(params):
        return source
    target = folder / source.name  # the same name, for messages
    match params.precision:
        case "fp32":
            return source
        case "fp16" | "bf16" as precision:
            progress(f"converting to {precision}")
            to_half(source, target, precision)
        case "int8" | "fp8" as precision:
            assert samples is not None  # core checks this
            progress(f"calibrating on {len(samples)} items")
            quantize(source, target, samples, precision, keep)
    return target
