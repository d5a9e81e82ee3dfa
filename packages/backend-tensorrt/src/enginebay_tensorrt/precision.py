"""From the precision that is asked for to a graph and a network that compute in it.

========  ===============================================  ===================================
          strongly typed (always in TensorRT 11)           by flags (TensorRT 10, where needed)
========  ===============================================  ===================================
fp32      the graph as it is, TF32 off                     –
fp16      the graph is converted                           ``FP16``, for DLA
bf16      the graph is converted                           –
int8      Q/DQ nodes                                       ``INT8`` and a calibrator
fp8       Q/DQ nodes                                       –
========  ===============================================  ===================================

TensorRT 10 would let its builder choose among precisions for every network. That is left to what
cannot be had otherwise: its calibrators, and DLA, which up to 10.7 takes no strongly typed network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import MissingDependencyError, ParamsError
from enginebay_tensorrt.bindings import HAS_PRECISION_FLAGS, trt
from enginebay_tensorrt.calibration import read_calibration

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from enginebay import IRModel
    from enginebay_tensorrt.calibration import Samples
    from enginebay_tensorrt.params import TensorrtParams


def is_by_flags(params: TensorrtParams) -> bool:
    """Whether the network is left untyped, and flags steer the builder."""
    return params.calibrator != "qdq" or (params.dla_core is not None and HAS_PRECISION_FLAGS)


def check_precision(params: TensorrtParams) -> None:
    """Refuse what the installed TensorRT cannot do, before any work is done.

    Raises:
        ParamsError: A calibrator is asked for that does not exist or has nothing to do, DLA for
            a precision that it does not compute in, or calibration data are missing.
    """
    if params.calibrator != "qdq":
        if not HAS_PRECISION_FLAGS:
            raise ParamsError(
                f"calibrator {params.calibrator} is TensorRT 10's, found TensorRT "
                f"{trt.__version__}: int8 is Q/DQ nodes there",
                hint="--calibrator qdq",
            )
        if params.precision != "int8":
            raise ParamsError(
                f"calibrator {params.calibrator} is for precision int8, found {params.precision}",
                hint="--precision int8",
            )
    if params.dla_core is not None and params.precision not in ("fp16", "int8"):
        raise ParamsError(
            f"DLA computes in fp16 and int8, found precision {params.precision}",
            hint="--precision fp16",
        )
    if is_by_flags(params) and params.precision == "int8" and params.calibrator == "qdq":
        raise ParamsError(
            f"int8 on DLA needs a calibrator in TensorRT {trt.__version__}, found qdq",
            hint="--calibrator entropy",
        )


def read_samples(ir: IRModel, params: TensorrtParams) -> Samples:
    """The calibration data, where the precision needs some.

    Raises:
        ParamsError: They are missing, or do not fit the model.
    """
    if params.precision not in ("int8", "fp8"):
        return []
    if not params.calibration:
        raise ParamsError(
            f"precision {params.precision} needs calibration data",
            hint="--calibration recorded-inputs.npz",
        )
    return read_calibration(params.calibration, ir.inputs)


def typed_graph(
    source: Path,
    params: TensorrtParams,
    samples: Samples,
    folder: Path,
    tell: Callable[[str], None],
) -> Path:
    """An ``.onnx`` file whose tensors have the types that the network is to compute in.

    Args:
        source: The model as it was exported.
        params: Say the precision.
        samples: Calibration data, where it is int8 or fp8.
        folder: Where a new file goes, if one is needed.
        tell: Called with a short text before long work.

    Returns:
        The new file, or ``source`` where nothing is to be changed.
    """
    if params.precision == "fp32" or is_by_flags(params):
        return source
    target = folder / "typed.onnx"
    if params.precision in ("fp16", "bf16"):
        tell(f"converting to {params.precision}")
        _write_half(source, target, params.precision)
    else:
        from enginebay_tensorrt.quantize import quantize

        tell(f"calibrating on {len(samples)} samples")
        quantize(source, target, samples, params.precision)  # type: ignore[arg-type]  # as above
    return target


def _write_half(source: Path, target: Path, precision: str) -> None:
    try:
        import onnx
        from onnx.external_data_helper import load_external_data_for_model
    except ImportError as err:
        raise MissingDependencyError(
            f"precision {precision} needs onnx: {err}", hint="pip install 'enginebay[export]'"
        ) from err
    from enginebay_tensorrt.half import to_half

    # Shapes are inferred before the weights are read: that step ends at 2 GB.
    model = onnx.shape_inference.infer_shapes(onnx.load(source, load_external_data=False))
    load_external_data_for_model(model, str(source.parent))
    onnx.save(
        to_half(model, precision),  # type: ignore[arg-type]  # fp16 or bf16
        target,
        save_as_external_data=True,
        location=f"{target.name}.data",
        size_threshold=1 << 20,
    )
