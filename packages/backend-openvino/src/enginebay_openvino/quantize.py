"""Quantises networks to int8 with NNCF, which calibrates them on a data set."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from typing import TYPE_CHECKING

from enginebay.authors.files import quiet
from enginebay.errors import ConversionError, EnginebayError, MissingDependencyError
from enginebay_openvino.reasons import format_reason

if TYPE_CHECKING:
    import openvino as ov

    from enginebay.hooks import CalibrationData


def check_int8() -> None:
    """Raise an error if the package that precision int8 requires is not installed.

    Raises:
        MissingDependencyError: NNCF is not installed.
    """
    if find_spec("nncf") is None:
        raise MissingDependencyError(
            "precision int8 requires NNCF, which is not installed",
            hint="pip install 'enginebay-openvino[int8]'",
        )


def quantize(
    model: ov.Model,
    samples: CalibrationData,
    keep: tuple[str, ...] = (),
    *,
    count: int | None = None,
) -> ov.Model:
    """Return the network with 8-bit layers.

    Args:
        model: The network.
        samples: The calibration data: input arrays by name; NNCF may read it several times.
        keep: Names of nodes to leave in floating point, from :func:`quantizable_nodes`.
        count: The number of samples to calibrate with; None for all.

    Raises:
        UsageError: The samples do not fit the network's inputs.
        ConversionError: NNCF failed.
    """
    # Each port has one name, that of the IR's spec, which the conversion has set.
    names = [name for port in model.inputs for name in port.names]
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
        data = nncf.Dataset(samples, lambda sample: [sample[name] for name in names])
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
    quantised = quantize(model, samples, count=1)
    nodes = {}
    for op in quantised.get_ordered_ops():
        if op.get_type_name() == "FakeQuantize" and not _is_weight(op.input_value(0).get_node()):
            for port in op.output(0).get_target_inputs():
                node = port.get_node()
                nodes[node.get_friendly_name()] = node.get_type_name()
    return nodes


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
