"""Quantises networks to int8 with NNCF, which calibrates them on a data set."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from typing import TYPE_CHECKING

from enginebay.authors.arrays import fits_eight_bits
from enginebay.authors.files import quiet
from enginebay.environment import install_command
from enginebay.errors import ConversionError, EnginebayError, MissingDependencyError
from enginebay_openvino.reasons import format_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    import openvino as ov

    from enginebay.authors.arrays import NumpyArray
    from enginebay.hooks import CalibrationData


#: Operators that only move values: NNCF quantises them together with the node that follows.
_MOVING = (
    *("Broadcast", "Concat", "Convert", "Gather", "Reshape", "Select", "Slice", "Split", "Squeeze"),
    *("StridedSlice", "Tile", "Transpose", "Unsqueeze", "VariadicSplit"),
)

#: Operators that make a mask of such values: (1 - mask) * lowest.
_MASKING = (*_MOVING, "Add", "Divide", "FakeQuantize", "Multiply", "Negative", "Subtract")


def check_int8() -> None:
    """Raise an error if the package that precision int8 requires is not installed.

    Raises:
        MissingDependencyError: NNCF is not installed.
    """
    if find_spec("nncf") is None:
        raise MissingDependencyError(
            "precision int8 requires NNCF, which is not installed",
            hint=install_command("enginebay-openvino[int8]"),
        )


def quantize(
    model: ov.Model, samples: CalibrationData, keep: tuple[str, ...] = ()
) -> tuple[ov.Model, dict[str, float]]:
    """Return the network with 8-bit layers, and the nodes with values that do not fit 8 bits.

    Such nodes, for example the sum of attention scores and a mask, stay in floating point. Each is
    returned with the largest magnitude of these values.

    Args:
        model: The network.
        samples: The calibration data: input arrays by name; NNCF may read it several times.
        keep: Names of nodes to leave in floating point, from :func:`quantizable_nodes`.

    Raises:
        UsageError: The samples do not fit the network's inputs.
        ConversionError: NNCF failed.
    """
    quantised = _insert_nodes(model, samples, keep)
    wide_nodes = _find_wide_nodes(quantised, _find_infinite(model, quantised, samples))
    if wide_nodes:
        quantised = _insert_nodes(model, samples, (*keep, *wide_nodes))
    return quantised, wide_nodes


def _insert_nodes(
    model: ov.Model,
    samples: CalibrationData,
    keep: tuple[str, ...] = (),
    *,
    count: int | None = None,
) -> ov.Model:
    """Return the network with FakeQuantize nodes before all layers but those in ``keep``.

    Args:
        model: The network.
        samples: The calibration data: input arrays by name; NNCF may read it several times.
        keep: Names of nodes to leave in floating point, from :func:`quantizable_nodes`.
        count: The number of samples to calibrate with; None for all.

    Raises:
        UsageError: The samples do not fit the network's inputs.
        ConversionError: NNCF failed.
    """
    _name_nodes(model)
    with quiet():  # NNCF draws progress bars on standard output
        import nncf
        from nncf.quantization.advanced_parameters import (
            AdvancedQuantizationParameters,
            OverflowFix,
        )
        from nncf.quantization.range_estimator import RangeEstimatorParametersSet

        advanced = AdvancedQuantizationParameters(
            # By default NNCF averages the items' maxima, which clips values in half of the items.
            activations_range_estimator_params=RangeEstimatorParametersSet.MINMAX,
            # It made five of eight small networks worse by 1 to 8 dB, none better by over 0.3 dB.
            disable_bias_correction=True,
            # Half of the 8-bit range in every layer: x86 without VNNI adds two 8-bit products in 16
            # bits, where the sum saturates. A vision transformer had 11 dB there; it has 34 dB now.
            overflow_fix=OverflowFix.ENABLE,
        )
        data = nncf.Dataset(samples, _make_feed(model))
        try:
            return nncf.quantize(
                model,
                data,
                subset_size=count or len(samples),
                # Only weights are symmetric: symmetric activations waste half of the steps after
                # SiLU, GELU and Hardswish. With MINMAX, small networks gained 3 to 7 dB.
                preset=nncf.QuantizationPreset.MIXED,
                ignored_scope=nncf.IgnoredScope(names=list(keep)) if keep else None,
                advanced_parameters=advanced,
            )
        except EnginebayError:
            raise
        except Exception as err:
            raise ConversionError(f"NNCF cannot quantise the model: {format_reason(err)}") from err


def quantizable_nodes(model: ov.Model, samples: CalibrationData) -> dict[str, str]:
    """Return the operators, by node name, of the nodes whose inputs NNCF quantises.

    Args:
        model: The network.
        samples: The calibration data: input arrays by name; only the first sample is read.

    Raises:
        UsageError: The sample does not fit the network's inputs.
        ConversionError: NNCF failed.
    """
    return {
        reader.get_friendly_name(): reader.get_type_name()
        for op in _list_quantisers(_insert_nodes(model, samples, count=1))
        for reader in _list_readers(op)
    }


def _find_wide_nodes(model: ov.Model, infinite: Collection[tuple[str, int]]) -> dict[str, float]:
    """Return the nodes that read a tensor whose range does not fit 8 bits, with its magnitude.

    ``infinite`` contains the values with infinity, from :func:`_find_infinite`.
    """
    import numpy as np

    found: dict[str, float] = {}
    for op in _list_quantisers(model):
        ends = [op.input_value(index).get_node().get_data() for index in (1, 2)]
        low, high = float(np.min(ends[0])), float(np.max(ends[1]))
        if _get_source(op) in infinite:
            high = np.inf
        if fits_eight_bits(low, high):
            continue
        for quantiser in (op, *_find_mask_quantisers(op)):
            for name in _find_readers(quantiser):
                found[name] = max(found.get(name, 0.0), abs(low), abs(high))
    return found


def _find_mask_quantisers(quantiser: ov.Node) -> list[ov.Node]:
    """Return the quantisers of the inputs and constants that a mask is computed from.

    A 1 that is not exactly 1 in 8 bits would become a large number in ``(1 - mask) * lowest``. The
    result is empty if the value of ``quantiser`` depends on layers of the network.
    """
    makers, known = [quantiser], {quantiser.get_friendly_name()}
    for node in makers:
        kind = node.get_type_name()
        if kind in _MASKING:
            inputs = {port.get_node().get_friendly_name(): port for port in node.input_values()}
            makers += [port.get_node() for name, port in inputs.items() if name not in known]
            known.update(inputs)
        elif kind not in ("Parameter", "Constant"):
            return []
    return [node for node in makers[1:] if node.get_type_name() == "FakeQuantize"]


def _find_readers(quantiser: ov.Node) -> list[str]:
    """Return the names of the nodes that compute with a quantised value."""
    nodes = _list_readers(quantiser)
    for node in nodes:
        if node.get_type_name() in _MOVING:
            nodes += _list_readers(node)
    return [node.get_friendly_name() for node in nodes if node.get_type_name() not in _MOVING]


def _find_infinite(
    model: ov.Model, quantised: ov.Model, samples: CalibrationData
) -> set[tuple[str, int]]:
    """Return the quantised values that are infinite in a sample: node name and output index.

    NNCF leaves infinity out of a range: that of a mask of 0 and -inf is from 0 to 0.
    """
    import numpy as np
    import openvino as ov
    from openvino import opset13 as ops

    quantisers = list(_list_quantisers(quantised))
    constants = (
        op.get_data() for op in model.get_ordered_ops() if op.get_type_name() == "Constant"
    )
    has_infinity = any(data.dtype.kind == "f" and np.isinf(data).any() for data in constants)
    if not has_infinity and all(
        op.input_value(1).get_node().get_data().any()
        or op.input_value(2).get_node().get_data().any()
        for op in quantisers
    ):
        return set()
    sources = {_get_source(op) for op in quantisers}
    network = model.clone()
    outputs = {
        (op.get_friendly_name(), port.get_index()): port
        for op in network.get_ordered_ops()
        for port in op.outputs()
        if (op.get_friendly_name(), port.get_index()) in sources
    }
    network.add_outputs(
        [
            ops.reduce_logical_or(
                ops.reshape(ops.is_inf(port), [-1], special_zero=False), 0
            ).output(0)
            for port in outputs.values()
        ]
    )
    run, feed = ov.Core().compile_model(network, "CPU"), _make_feed(model)
    found: set[tuple[str, int]] = set()
    for sample in samples:
        flags = list(run(feed(sample)).values())[-len(outputs) :]
        found.update(value for value, flag in zip(outputs, flags, strict=True) if flag)
    return found


def _make_feed(model: ov.Model) -> Callable[[Mapping[str, NumpyArray]], list[NumpyArray]]:
    """Return a function that lists a sample's arrays in the order of the network's inputs."""
    # Each port has one name, that of the IR's spec, which the conversion has set.
    names = [name for port in model.inputs for name in port.names]
    return lambda sample: [sample[name] for name in names]


def _get_source(quantiser: ov.Node) -> tuple[str, int]:
    """Return the value that a FakeQuantize node reads: the node's name and the output's index."""
    value = quantiser.input_value(0)
    return value.get_node().get_friendly_name(), value.get_index()


def _list_quantisers(model: ov.Model) -> Iterator[ov.Node]:
    """Yield the FakeQuantize nodes of values that are not weights."""
    for op in model.get_ordered_ops():
        if op.get_type_name() == "FakeQuantize" and not _is_weight(op.input_value(0).get_node()):
            yield op


def _list_readers(node: ov.Node) -> list[ov.Node]:
    return [port.get_node() for output in node.outputs() for port in output.get_target_inputs()]


def _is_weight(node: ov.Node) -> bool:
    if node.get_type_name() == "Convert":
        node = node.input_value(0).get_node()
    return str(node.get_type_name()) == "Constant"


def _name_nodes(model: ov.Model) -> None:
    """Name the nodes that have no name; the new names are the same each time a model is read."""
    counts: Counter[str] = Counter()
    for op in model.get_ordered_ops():
        kind = op.get_type_name()
        counts[kind] += 1
        if op.get_friendly_name() == op.get_name():  # its default name has a process-wide number
            op.set_friendly_name(f"{kind}_{counts[kind]}")
