"""int8: Q/DQ nodes around the operators that ONNX Runtime has 8-bit kernels for.

ONNX Runtime's own quantiser runs the model on a data set and inserts the nodes; the session fuses
them with the operators between them. Its authors' advice is followed: the model is simplified
first, weights are signed and symmetric with a scale for each channel. Activations are unsigned:
signed ones, the quantiser's default, are as precise, and on an x86 processor with VNNI a small
ResNet was 3.4 times and a MobileNetV3 3.8 times slower with them, slower than in fp32.
Ranges are the least and the greatest value of each tensor; percentiles would keep every activation.

Weights lie between -64 and 64, so that an artifact gives the same numbers on every processor. An
x86 processor without VNNI adds two products of 8 bits in 16 bits, and cuts off what is larger: with
weights up to 127 a vision transformer kept 10 dB there and a ResNet 28, of 37 elsewhere; with
weights up to 64 they keep 34 and 35 everywhere, in the same time. ONNX Runtime's other way, its
session option ``session.x64quantprecision``, is up to 1.5 times slower and does not load every
model (1.32).
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from enginebay.authors import quiet
from enginebay.errors import ConversionError, EnginebayError, MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay.hooks import CalibrationData

#: Operators with 8-bit kernels, and those that only move values, through which 8 bits pass.
_COMPUTING = ("Conv", "Gemm", "MatMul", "Add", "AveragePool", "GlobalAveragePool", "LeakyRelu")
_MOVING = (
    *("Concat", "Clip", "MaxPool", "Pad", "Relu", "Reshape", "Resize", "Split", "Squeeze"),
    *("Transpose", "Unsqueeze"),
)

#: A protobuf file ends at 2 GB; weights of larger models lie beside it.
_LARGE = 1 << 30


def quantize(
    source: Path, target: Path, samples: CalibrationData, keep: tuple[str, ...] = ()
) -> list[Path]:
    """Write the model with Q/DQ nodes.

    Args:
        source: An ``.onnx`` file.
        target: The file to write; the weights of a large model go beside it.
        samples: Inputs by name.
        keep: Names of nodes that get none, out of :func:`quantizable_nodes`.

    Returns:
        The files written; the model first.

    Raises:
        MissingDependencyError: onnx is not installed.
        UsageError: The samples do not fit the model.
        ConversionError: The model cannot be quantised, or holds nothing to quantise.
    """
    with _simplified(source) as simplified:
        from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

        quantize_static(
            simplified,
            target,
            _reader(samples),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=[*_COMPUTING, *_MOVING],
            nodes_to_exclude=list(keep),
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=True,
            use_external_data_format=_is_large(source),
            # Not CalibMaxIntermediateOutputs: it forgets all items but the last ones (1.31).
            extra_options={"WeightSymmetric": True},
        )
    if not any(node.op_type == "QuantizeLinear" for node in _nodes(target)):
        raise ConversionError(
            f"'{source.name}' holds nothing to quantise: wanted {', '.join(_COMPUTING)}",
            hint="--precision fp16",
        )
    weights = target.with_name(f"{target.name}.data")
    if not weights.exists():
        return [target]
    weights.chmod(target.stat().st_mode)  # onnx lets nobody but the owner read it
    return [target, weights]


def quantizable_nodes(source: Path) -> dict[str, str]:
    """Return the operators that :func:`quantize` puts Q/DQ nodes around, by the nodes' names.

    Args:
        source: An ``.onnx`` file.

    Raises:
        MissingDependencyError: onnx is not installed.
        ConversionError: The model cannot be simplified.
    """
    with _simplified(source) as simplified:
        nodes = _nodes(simplified)
    return {node.name: node.op_type for node in nodes if node.name and node.op_type in _COMPUTING}


@contextmanager
def _simplified(source: Path) -> Iterator[Path]:
    """Yield the model as it is quantised, in a folder that is removed.

    Raises:
        MissingDependencyError: onnx is not installed.
        ConversionError: The block raised.
    """
    try:
        from onnxruntime.quantization.shape_inference import quant_pre_process
    except ImportError as err:
        raise MissingDependencyError(
            f"precision int8 needs ONNX Runtime's quantiser: {err}",
            hint="pip install 'enginebay-onnxruntime[int8]'",
        ) from err
    with TemporaryDirectory(prefix="enginebay-int8-") as folder, quiet(), _root_logger_left_alone():
        simplified = Path(folder) / "simplified.onnx"
        try:
            quant_pre_process(
                source,
                simplified,
                skip_symbolic_shape=True,  # it wants sympy, and adds little to onnx's own
                # Without it, weights that lie beside the source are not found again (1.22 to 1.32).
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


def _is_large(source: Path) -> bool:
    return sum(file.stat().st_size for file in source.parent.glob(f"{source.name}*")) > _LARGE


def _nodes(path: Path) -> Any:
    import onnx

    return onnx.load(path, load_external_data=False).graph.node


def _reader(samples: CalibrationData) -> Any:
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no types
        def __init__(self) -> None:
            self._rest = iter(samples)

        def get_next(self) -> Any:
            return next(self._rest, None)

    return Reader()


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
