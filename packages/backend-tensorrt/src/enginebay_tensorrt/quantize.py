"""int8 and fp8: Q/DQ nodes around convolutions and matrix products, scaled by recorded inputs.

ONNX Runtime's quantiser runs the model on the samples and inserts the nodes. Its settings follow
TensorRT's rules for explicitly quantised networks, in 10 as in 11: zero points are 0, weights have
a scale for each output channel in int8, biases stay as they are, and only inputs of the operators
below are quantised, so that TensorRT is free to fuse what follows them.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from enginebay.authors import quiet
from enginebay.errors import ConversionError, EnginebayError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from enginebay.hooks import CalibrationData

#: The operators that TensorRT has 8-bit kernels for and that are worth one.
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
        target: The file to write; weights of 1 GiB and more go beside it.
        samples: Inputs by name.
        precision: ``int8`` or ``fp8``, which is E4M3.
        keep: Names of nodes that get none, out of :func:`quantizable_nodes`.

    Raises:
        MissingDependencyError: ONNX Runtime or onnx is not installed.
        ConversionError: The model cannot be run on the samples, or holds nothing to quantise.
    """
    try:
        from onnxruntime.quantization import QuantFormat, quantize_static
    except ImportError as err:
        raise MissingDependencyError(
            f"precision {precision} needs ONNX Runtime's quantiser: {err}",
            hint="pip install 'enginebay-tensorrt[int8]'",
        ) from err
    model = _raised(source, precision)
    try:
        with quiet(), _root_logger_left_alone():
            quantize_static(
                model,
                target,
                _reader(samples),
                quant_format=QuantFormat.QDQ,
                op_types_to_quantize=list(QUANTIZED),
                nodes_to_exclude=list(keep),
                use_external_data_format=model.ByteSize() > 1 << 30,
                **_settings(precision),
            )
    except EnginebayError:
        raise
    except Exception as err:
        raise ConversionError(
            f"'{source.name}' cannot be quantised: {str(err).splitlines()[0]}"
        ) from err
    _check_quantized(target, source)
    _set_scales_of_zero(target)


def quantizable_nodes(source: Path) -> dict[str, str]:
    """Return the operators that :func:`quantize` puts Q/DQ nodes around, by the nodes' names."""
    nodes = _nodes(source)
    return {node.name: node.op_type for node in nodes if node.name and node.op_type in QUANTIZED}


@contextmanager
def _root_logger_left_alone() -> Iterator[None]:
    """Keep the quantiser from configuring the root logger."""
    # It calls logging.warning, which adds a handler to a root logger that has none.
    guard = logging.NullHandler()
    logging.getLogger().addHandler(guard)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(guard)


def _settings(precision: str) -> dict[str, Any]:
    from onnxruntime.quantization import CalibrationMethod, QuantType

    int8 = precision == "int8"
    kind = QuantType.QInt8 if int8 else QuantType.QFLOAT8E4M3FN
    return {
        "activation_type": kind,
        "weight_type": kind,
        "per_channel": int8,
        # For fp8, ONNX Runtime knows no other method.
        "calibrate_method": CalibrationMethod.MinMax if int8 else CalibrationMethod.Distribution,
        "extra_options": {
            "ActivationSymmetric": True,
            "WeightSymmetric": True,
            "AddQDQPairToWeight": True,
            "QuantizeBias": False,
            "OpTypesToExcludeOutputQuantization": list(QUANTIZED),
        },
    }


def _raised(source: Path, precision: str) -> Any:
    """Load the model at an opset whose Q/DQ operators have the precision and scales per channel."""
    import onnx
    from onnx import version_converter

    model = onnx.load(source)
    wanted = 13 if precision == "int8" else 19
    found = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    if found >= wanted:
        return model
    try:
        return version_converter.convert_version(model, wanted)
    except Exception as err:
        raise ConversionError(
            f"{precision} needs opset {wanted}, and '{source.name}' cannot be raised from {found}: "
            f"{str(err).splitlines()[0]}",
            hint=f"export it with opset {wanted} or newer",
        ) from err


def _reader(samples: CalibrationData) -> Any:
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no types
        def __init__(self) -> None:
            self._rest = iter(samples)

        def get_next(self) -> Any:
            return next(self._rest, None)

    return Reader()


def _check_quantized(target: Path, source: Path) -> None:
    if not any(node.op_type == "QuantizeLinear" for node in _nodes(target)):
        raise ConversionError(
            f"'{source.name}' holds nothing to quantise: wanted {', '.join(QUANTIZED)}",
            hint="--precision fp16",
        )


def _set_scales_of_zero(target: Path) -> None:
    """Give values that are all alike a scale: the quantiser writes 0, which TensorRT refuses."""
    import onnx
    from onnx import numpy_helper

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


def _nodes(path: Path) -> Any:
    import onnx

    return onnx.load(path, load_external_data=False).graph.node
