"""Inserts Q/DQ nodes around the operators that ONNX Runtime has 8-bit kernels for.

ONNX Runtime's own quantiser runs the model on a data set and inserts the nodes; the session fuses
Q/DQ nodes with the operators between them. As ONNX Runtime's documentation advises, the model is
simplified first, and weights are signed and symmetric with a scale for each channel. Activations
are unsigned. Signed activations, the quantiser's default, are equally precise, but slower: on an
x86 processor with VNNI a small ResNet was 3.4 times and a MobileNetV3 3.8 times slower, and so
slower than in fp32. Ranges are the minimum and the maximum of each tensor; percentiles would store
every activation in memory.

Weights are between -64 and 64, so that an artifact computes the same numbers on every processor. An
x86 processor without VNNI adds two 8-bit products in 16 bits, where the sum saturates. On such a
processor, with weights up to 127, a vision transformer had a signal-to-noise ratio of 10 dB and a
ResNet of 28 dB. On other processors, both models had 37 dB. With weights up to 64, the two models
have 34 and 35 dB on all processors, at the same speed. ONNX Runtime's alternative, the session
option ``session.x64quantprecision``, is up to 1.5 times slower and cannot load some models (1.32).
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from enginebay.authors.files import quiet
from enginebay.errors import ConversionError, EnginebayError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import onnx
    from onnxruntime.quantization import CalibrationDataReader

    from enginebay.authors.arrays import NumpyArray
    from enginebay.hooks import CalibrationData

#: Operators with 8-bit kernels, and operators that only move values, which work in 8 bits too.
_COMPUTING = ("Conv", "Gemm", "MatMul", "Add", "AveragePool", "GlobalAveragePool", "LeakyRelu")
_MOVING = (
    *("Concat", "Clip", "MaxPool", "Pad", "Relu", "Reshape", "Resize", "Split", "Squeeze"),
    *("Transpose", "Unsqueeze"),
)

#: Weights of larger models are stored in a separate file: protobuf files are limited to 2 GB.
_MAX_BYTES_IN_ONE_FILE = 1 << 30


def quantize(
    source: Path, target: Path, samples: CalibrationData, keep: tuple[str, ...] = ()
) -> list[Path]:
    """Write the model with Q/DQ nodes.

    Args:
        source: An ``.onnx`` file.
        target: The file to write; the weights of a large model go into a file next to it.
        samples: The calibration data: arrays by the inputs' names.
        keep: Names of nodes from :func:`quantizable_nodes` that are not quantised.

    Returns:
        The written files; the model first.

    Raises:
        MissingDependencyError: onnx is not installed.
        UsageError: The samples do not fit the model.
        ConversionError: The model cannot be quantised, or has no nodes to quantise.
    """
    with _simplify(source) as simplified:
        from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

        quantize_static(
            simplified,
            target,
            _make_reader(samples),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=[*_COMPUTING, *_MOVING],
            nodes_to_exclude=list(keep),
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=True,
            use_external_data_format=_is_large_model(source),
            # Not CalibMaxIntermediateOutputs: it uses only the last items (1.31).
            extra_options={"WeightSymmetric": True},
        )
    if not any(node.op_type == "QuantizeLinear" for node in _read_nodes(target)):
        raise ConversionError(
            f"'{source.name}' has no nodes to quantise: expected one of {', '.join(_COMPUTING)}",
            hint="--precision fp16",
        )
    weights = target.with_name(f"{target.name}.data")
    if not weights.exists():
        return [target]
    weights.chmod(target.stat().st_mode)  # onnx makes it readable for the owner only
    return [target, weights]


def quantizable_nodes(source: Path) -> dict[str, str]:
    """Return the operators, by node name, that :func:`quantize` puts Q/DQ nodes around."""
    with _simplify(source) as simplified:
        nodes = _read_nodes(simplified)
    return {node.name: node.op_type for node in nodes if node.name and node.op_type in _COMPUTING}


@contextmanager
def _simplify(source: Path) -> Iterator[Path]:
    """Simplify a model, and yield the new file, which is deleted after the ``with`` block.

    Raises:
        MissingDependencyError: onnx is not installed.
        ConversionError: The model cannot be simplified, or the ``with`` block raises an exception.
    """
    try:
        from onnxruntime.quantization.shape_inference import quant_pre_process
    except ImportError as err:
        raise MissingDependencyError(
            f"precision int8 requires ONNX Runtime's quantiser: {err}",
            hint="pip install 'enginebay-onnxruntime[int8]'",
        ) from err
    with TemporaryDirectory(prefix="enginebay-int8-") as folder, quiet(), _protect_root_logger():
        simplified = Path(folder) / "simplified.onnx"
        try:
            quant_pre_process(
                source,
                simplified,
                skip_symbolic_shape=True,  # it needs sympy, and adds little to onnx's own
                # Without it, external weights of the source are not found (1.22 to 1.32).
                save_as_external_data=True,
                all_tensors_to_one_file=True,
            )
            yield simplified
        except EnginebayError:
            raise
        except Exception as err:
            raise ConversionError(
                f"'{source.name}' cannot be quantised: {str(err).splitlines()[0]}"
            ) from err


def _is_large_model(source: Path) -> bool:
    return (
        sum(file.stat().st_size for file in source.parent.glob(f"{source.name}*"))
        > _MAX_BYTES_IN_ONE_FILE
    )


def _read_nodes(path: Path) -> list[onnx.NodeProto]:
    import onnx

    return list(onnx.load(path, load_external_data=False).graph.node)


def _make_reader(samples: CalibrationData) -> CalibrationDataReader:
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no stubs
        def __init__(self) -> None:
            self._rest = iter(samples)

        def get_next(self) -> Mapping[str, NumpyArray] | None:
            return next(self._rest, None)

    return Reader()


@contextmanager
def _protect_root_logger() -> Iterator[None]:
    """Prevent the quantiser from configuring the root logger."""
    # The quantiser calls logging.warning, which adds a handler to a root logger without one.
    guard = logging.NullHandler()
    logging.getLogger().addHandler(guard)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(guard)
