"""From the requested precision to a graph and a network that compute in it.

=========  ===============================================  ===================================
           strongly typed (always in TensorRT 11)           by flags (DLA in TensorRT 10)
=========  ===============================================  ===================================
fp32       the graph as it is, TF32 off                     –
fp16       the graph is converted                           ``FP16``
bf16       the graph is converted                           –
int8, fp8  Q/DQ nodes                                       –
=========  ===============================================  ===================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.authors import to_half
from enginebay.errors import ParamsError
from enginebay_tensorrt.library import library_of
from enginebay_tensorrt.quantize import quantize

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from enginebay.hooks import CalibrationData
    from enginebay_tensorrt.params import Params


def uses_flags(params: Params) -> bool:
    """Return True if the network is left untyped, and a flag lets the builder use fp16."""
    # TensorRT 10 could do so for every network. Up to 10.7 its DLA takes no strongly typed one.
    return params.dla_core is not None and library_of(params).has_precision_flags


def check_precision(params: Params) -> None:
    """Check the precision before any work is done.

    Raises:
        ParamsError: DLA is requested for a precision that it does not compute in.
    """
    # DLA has int8 too, but knows implicit quantisation only: NVIDIA/Model-Optimizer#1661.
    if params.dla_core is not None and params.precision != "fp16":
        raise ParamsError(
            f"DLA computes in fp16, found precision {params.precision}", hint="--precision fp16"
        )


def typed_graph(
    source: Path,
    params: Params,
    samples: CalibrationData | None,
    folder: Path,
    progress: Callable[[str], None],
    keep: tuple[str, ...] = (),
) -> Path:
    """Return an ``.onnx`` file whose tensors have the types that the network is to compute in.

    Args:
        source: The model as it was exported.
        params: The parameters, with the precision.
        samples: What int8 and fp8 are calibrated with.
        folder: The folder for a new file, if one is needed.
        progress: Called with a short text before long work.
        keep: Names of nodes that stay in fp32 in int8 and fp8.

    Returns:
        The new file, or ``source`` where nothing is to be changed.

    Raises:
        MissingDependencyError: The precision needs a package that is not installed.
        ConversionError: The model cannot be converted.
    """
    if uses_flags(params):
        return source
    target = folder / source.name  # messages name it
    match params.precision:
        case "fp32":
            return source
        case "fp16" | "bf16" as precision:
            progress(f"converting to {precision}")
            to_half(source, target, precision)
        case "int8" | "fp8" as precision:
            assert samples is not None  # core has checked
            progress(f"calibrating on {len(samples)} items")
            quantize(source, target, samples, precision, keep)
    return target
