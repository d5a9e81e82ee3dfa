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
import math
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from enginebay.authors.arrays import fits_eight_bits
from enginebay.authors.files import quiet
from enginebay.environment import install_command
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
#: Operators that make a mask from inputs and constants.
_MASKING = (
    *(*_MOVING, "Add", "Cast", "Constant", "DequantizeLinear", "Div", "Equal", "Expand", "Gather"),
    *("Mul", "Neg", "Not", "QuantizeLinear", "Shape", "Slice", "Sub", "Where"),
)

#: Of 255 steps for the largest values, a part of this share has fewer than 16.
_LEAST_SHARE = 16

#: Weights of larger models are stored in a separate file: protobuf files are limited to 2 GB.
_MAX_BYTES_IN_ONE_FILE = 1 << 30


class Form(NamedTuple):
    """The form of quantised numbers.

    Attributes:
        activation_bits: 8 or 16 bits of each activation.
        full_weights: True for weights up to 127 instead of 64, where products do not saturate.
    """

    activation_bits: int = 8
    full_weights: bool = False


class Quantized(NamedTuple):
    """The result of :func:`quantize`.

    Attributes:
        files: The written files; the model first.
        wide_nodes: The nodes with values that do not fit 8 bits, each with the largest magnitude.
        notes: A sentence for each node that joins values that need scales of their own.
    """

    files: list[Path]
    wide_nodes: dict[str, float]
    notes: list[str]


def quantize(
    source: Path,
    target: Path,
    samples: CalibrationData,
    keep: tuple[str, ...] = (),
    form: Form | None = None,
) -> Quantized:
    """Write the model with Q/DQ nodes.

    Nodes with values that do not fit 8 bits, such as the sum of attention scores and a mask, stay
    in floating point, and so do nodes that join values of different units.

    Args:
        source: An ``.onnx`` file.
        target: The file to write; the weights of a large model go into a file next to it.
        samples: The calibration data: arrays by the inputs' names.
        keep: Names of nodes from :func:`quantizable_nodes` that are not quantised.
        form: The form of the numbers; by default the one for ONNX Runtime's own kernels.

    Raises:
        MissingDependencyError: onnx is not installed.
        UsageError: The samples do not fit the model.
        ConversionError: The model cannot be quantised, or has no nodes to quantise.
    """
    form = form or Form()
    with _simplify(source) as simplified:
        large = _is_large_model(source)
        _insert_nodes(simplified, target, samples, keep, form, large=large)
        graph = _QuantisedGraph(target, steps=2**form.activation_bits - 1)
        wide_nodes, joints = graph.find_wide_nodes(), graph.find_joints()
        if wide_nodes or joints:
            keep = (*keep, *wide_nodes, *joints)
            _insert_nodes(simplified, target, samples, keep, form, large=large)
    if not any(node.op_type == "QuantizeLinear" for node in _read_nodes(target)):
        raise ConversionError(
            f"'{source.name}' has no nodes to quantise: expected one of {', '.join(_COMPUTING)}",
            hint="--precision fp16",
        )
    weights = target.with_name(f"{target.name}.data")
    files = [target]
    if weights.exists():
        weights.chmod(target.stat().st_mode)  # onnx makes it readable for the owner only
        files.append(weights)
    computing = quantizable_nodes(source).keys() if wide_nodes else ()
    return Quantized(
        files=files,
        wide_nodes={name: size for name, size in wide_nodes.items() if name in computing},
        notes=[
            f"{name} stays in floating point: it joins values up to {low:.3g} and up to "
            f"{high:.3g}, and one scale in 8 bits would leave too few steps for the smaller values"
            for name, (low, high) in joints.items()
        ],
    )


def _insert_nodes(
    source: Path,
    target: Path,
    samples: CalibrationData,
    keep: tuple[str, ...],
    form: Form,
    *,
    large: bool,
) -> None:
    """Write a simplified model with Q/DQ nodes around all nodes but those in ``keep``."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    target.with_name(f"{target.name}.data").unlink(missing_ok=True)  # onnx would append to it
    quantize_static(
        source,
        target,
        _make_reader(samples),
        quant_format=QuantFormat.QDQ,
        op_types_to_quantize=[*_COMPUTING, *_MOVING],
        nodes_to_exclude=list(keep),
        activation_type=QuantType[f"QUInt{form.activation_bits}"],
        weight_type=QuantType.QInt8,
        per_channel=True,
        reduce_range=not form.full_weights,
        use_external_data_format=large,
        # Not CalibMaxIntermediateOutputs: it uses only the last items (1.31).
        extra_options={"WeightSymmetric": True},
    )


class _QuantisedGraph:
    """A model with Q/DQ nodes: its nodes by the tensors that they read and write, and the ranges.

    Args:
        path: The model.
        steps: The steps between the lowest and the highest number of an activation.
    """

    def __init__(self, path: Path, steps: int) -> None:
        import onnx
        from onnx.numpy_helper import to_array

        graph = onnx.load(path, load_external_data=False).graph
        self._steps = steps
        self.nodes = list(graph.node)
        self.outputs = {output.name for output in graph.output}
        self.scales = {
            tensor.name: float(to_array(tensor))
            for tensor in graph.initializer
            if tensor.data_location != onnx.TensorProto.EXTERNAL and not tensor.dims
        }
        self.makers = {output: node for node in self.nodes for output in node.output}
        self.readers: dict[str, list[onnx.NodeProto]] = {}
        for node in self.nodes:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)

    def find_wide_nodes(self) -> dict[str, float]:
        """Return the nodes that read or write a tensor whose range does not fit 8 bits.

        Each has the largest magnitude of such a tensor.
        """
        found: dict[str, float] = {}
        for node in self.nodes:
            largest = self._measure_range(node)
            if node.op_type != "QuantizeLinear" or fits_eight_bits(-largest, largest):
                continue
            touching = self._list_mask_nodes(node.input[0])
            for back in self.readers.get(node.output[0], []):
                touching += self.readers.get(back.output[0], [])
            for near in touching:
                if near.op_type in (*_COMPUTING, *_MOVING):
                    found[near.name] = max(found.get(near.name, 0.0), largest)
        return found

    def find_joints(self) -> dict[str, tuple[float, float]]:
        """Return the nodes that join values of different units for an output: boxes and scores.

        Each has its smallest and its largest range. One scale for both would leave too few steps
        for the smaller values.
        """
        found = {}
        for node in self.nodes:
            inputs = [self.makers[name] for name in node.input if name in self.makers]
            ranges = [
                self._measure_range(maker)
                for maker in inputs
                if maker.op_type == "DequantizeLinear"
            ]
            ranges = [size for size in ranges if 0 < size < math.inf]
            if node.op_type != "Concat" or not ranges or not self._is_returned(node):
                continue
            if min(ranges) * _LEAST_SHARE < max(ranges):
                found[node.name] = min(ranges), max(ranges)
        return found

    def _measure_range(self, node: onnx.NodeProto) -> float:
        """Return the range that a Q or DQ node has steps for; 0 for other nodes."""
        scale = self.scales.get(node.input[1], 0.0) if len(node.input) > 1 else 0.0
        # The quantiser writes an infinite scale, or NaN, for an infinite range.
        return math.inf if math.isnan(scale) else abs(scale) * self._steps

    def _is_returned(self, node: onnx.NodeProto) -> bool:
        """Return True if the model returns what a node computes, or moves it before."""
        names = list(node.output)
        for name in names:
            if name in self.outputs:
                return True
            for reader in self.readers.get(name, []):
                if reader.op_type in (*_MOVING, "QuantizeLinear", "DequantizeLinear"):
                    names += [other for other in reader.output if other not in names]
        return False

    def _list_mask_nodes(self, tensor: str) -> list[onnx.NodeProto]:
        """Return the node that computes a tensor, and for a mask all nodes before that node.

        A 1 that is not exactly 1 in 8 bits would become a large number in ``(1 - mask) * lowest``.
        """
        makers = self.makers
        names = [tensor] if tensor in makers else []
        for name in names:
            if makers[name].op_type not in _MASKING:
                return [makers[tensor]]
            inputs = makers[name].input
            names += [other for other in inputs if other in makers and other not in names]
        return [makers[name] for name in names]


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
            hint=install_command("enginebay-onnxruntime[int8]"),
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
