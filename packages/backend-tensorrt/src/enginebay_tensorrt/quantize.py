"""Quantise a model to int8 or fp8, by Q/DQ nodes around convolutions and matrix products.

ONNX Runtime's quantiser runs the model on the samples and inserts the nodes. Its settings follow
the rules of TensorRT 10 and 11 for explicitly quantised networks.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from enginebay.authors.files import quiet, raise_opset
from enginebay.environment import install_command
from enginebay.errors import ConversionError, EnginebayError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from onnxruntime.quantization import CalibrationDataReader

    from enginebay.authors.arrays import NumpyArray
    from enginebay.hooks import CalibrationData

#: The operators for which TensorRT has 8-bit kernels that are worth using.
QUANTIZED = ("Conv", "ConvTranspose", "MatMul", "Gemm")


def quantize(
    source: Path,
    target: Path,
    samples: CalibrationData,
    precision: Literal["int8", "fp8"],
    keep: tuple[str, ...] = (),
) -> None:
    """Write the model with Q/DQ nodes.

    Args:
        source: An ``.onnx`` file.
        target: The file to write; weights of 1 GiB and more go into a file next to it.
        samples: The calibration data: input arrays by name.
        precision: ``int8`` or ``fp8``, which is E4M3.
        keep: Names of nodes from :func:`quantizable_nodes` that are not quantised.

    Raises:
        MissingDependencyError: ONNX Runtime or onnx is not installed.
        ConversionError: The model cannot run on the samples, or has no nodes to quantise.
    """
    try:
        from onnxruntime.quantization import QuantFormat, quantize_static
    except ImportError as err:
        raise MissingDependencyError(
            f"precision {precision} requires ONNX Runtime's quantiser: {err}",
            hint=install_command("enginebay-tensorrt[int8]"),
        ) from err
    import onnx

    # Opset 13 adds scales for each channel, and opset 19 adds fp8.
    opset = 13 if precision == "int8" else 19
    model = raise_opset(onnx.load(source), opset, folder=source.parent, precision=precision)
    try:
        with quiet(), _protect_root_logger():
            quantize_static(
                model,
                target,
                _make_reader(samples),
                quant_format=QuantFormat.QDQ,
                op_types_to_quantize=list(QUANTIZED),
                nodes_to_exclude=list(keep),
                # Well below the limit of protobuf, 2 GB.
                use_external_data_format=model.ByteSize() > 1 << 30,
                **_quantizer_settings(precision),
            )
    except EnginebayError:  # an error of the data set
        raise
    except Exception as err:
        raise ConversionError(
            f"'{source.name}' cannot be quantised: {str(err).splitlines()[0]}"
        ) from err
    _check_quantized(target, source)
    _set_scales_of_zero(target)


def quantizable_nodes(source: Path) -> dict[str, str]:
    """Return the operators, by node name, that :func:`quantize` puts Q/DQ nodes around."""
    nodes = _load_nodes(source)
    return {node.name: node.op_type for node in nodes if node.name and node.op_type in QUANTIZED}


@contextmanager
def _protect_root_logger() -> Iterator[None]:
    # The quantiser calls logging.warning, which adds a handler to a root logger without one.
    guard = logging.NullHandler()
    logging.getLogger().addHandler(guard)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(guard)


def _quantizer_settings(precision: str) -> dict[str, Any]:
    from onnxruntime.quantization import CalibrationMethod, QuantType

    int8 = precision == "int8"
    kind = QuantType.QInt8 if int8 else QuantType.QFLOAT8E4M3FN
    return {
        "activation_type": kind,
        "weight_type": kind,
        "per_channel": int8,  # a scale for each output channel of the weights
        # For fp8, ONNX Runtime has only this method.
        "calibrate_method": CalibrationMethod.MinMax if int8 else CalibrationMethod.Distribution,
        "extra_options": {
            # TensorRT requires zero points of 0.
            "ActivationSymmetric": True,
            "WeightSymmetric": True,
            "AddQDQPairToWeight": True,
            "QuantizeBias": False,
            # Only inputs are quantised, so that TensorRT can fuse the operators that follow.
            "OpTypesToExcludeOutputQuantization": list(QUANTIZED),
        },
    }


def _make_reader(samples: CalibrationData) -> CalibrationDataReader:
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no stubs
        def __init__(self) -> None:
            self._rest = iter(samples)

        def get_next(self) -> Mapping[str, NumpyArray] | None:
            return next(self._rest, None)

    return Reader()


def _check_quantized(target: Path, source: Path) -> None:
    if not any(node.op_type == "QuantizeLinear" for node in _load_nodes(target)):
        raise ConversionError(
            f"'{source.name}' has no nodes to quantise: expected one of {', '.join(QUANTIZED)}",
            hint="--precision fp16",
        )


def _set_scales_of_zero(target: Path) -> None:
    import onnx
    from onnx import numpy_helper

    # The quantiser writes a scale of 0 for constant values, which TensorRT rejects: 1 replaces it.
    model = onnx.load(target, load_external_data=False)
    nodes = (node for node in model.graph.node if node.op_type == "QuantizeLinear")
    names = {node.input[1] for node in nodes}
    changed = False
    for tensor in model.graph.initializer:
        if tensor.name not in names or tensor.data_location == onnx.TensorProto.EXTERNAL:
            continue
        scales = numpy_helper.to_array(tensor)
        if not (scales > 0).all():
            fixed = scales.copy()
            fixed[scales <= 0] = 1
            tensor.CopyFrom(numpy_helper.from_array(fixed, tensor.name))
            changed = True
    if changed:
        onnx.save(model, target)


def _load_nodes(path: Path) -> Any:
    import onnx

    return onnx.load(path, load_external_data=False).graph.node
