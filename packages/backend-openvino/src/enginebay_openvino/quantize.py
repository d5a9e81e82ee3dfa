"""Quantisation to int8 by NNCF, calibrated with a data set.

Four of NNCF's defaults are not kept. It ends a range at the mean of the items' greatest values,
which cuts off what is greater in about half of them; here a range holds all items. It quantises
activations symmetrically, which wastes half of the steps behind SiLU, GELU and Hardswish; here
only weights are symmetric. Small MobileNetV3, ResNet and EfficientNet, trained on digits, gained 7,
3 and 6 dB by both. And it corrects biases by means over the items, which cost five of eight such
networks 1 to 8 dB, DenseNet most, and helped none by more than 0.3 dB.

The fourth: only the first layer's weights get half of the range, the others' all of it. An x86
processor without VNNI adds two products of 8 bits in 16 bits and cuts off what is larger, so that
on one a vision transformer kept 11 dB and a MobileNetV2 21. With half of the range for all layers
they keep 34 and 36 dB, on every processor and in the same time.
"""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from typing import TYPE_CHECKING

from enginebay.authors import quiet
from enginebay.errors import ConversionError, EnginebayError, MissingDependencyError
from enginebay_openvino.reasons import reason

if TYPE_CHECKING:
    import openvino as ov

    from enginebay.hooks import CalibrationData


def check_int8() -> None:
    """Check that int8 has what it needs, before any work is done.

    Raises:
        MissingDependencyError: NNCF is not installed.
    """
    if find_spec("nncf") is None:
        raise MissingDependencyError(
            "precision int8 needs NNCF, which is not installed",
            hint="pip install 'enginebay-openvino[int8]'",
        )


def quantize(
    model: ov.Model,
    samples: CalibrationData,
    keep: tuple[str, ...] = (),
    *,
    count: int | None = None,
) -> ov.Model:
    """Return the network with 8-bit layers wherever NNCF puts them.

    Args:
        model: The network.
        samples: Inputs by name; can be read again and again.
        keep: Names of nodes that stay in floating point, out of :func:`quantizable_nodes`.
        count: How many samples to calibrate with; None for all.

    Raises:
        UsageError: The samples do not fit the network's inputs.
        ConversionError: NNCF failed.
    """
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
            activations_range_estimator_params=RangeEstimatorParametersSet.MINMAX,
            disable_bias_correction=True,
            overflow_fix=OverflowFix.ENABLE,
        )
        data = nncf.Dataset(samples, lambda sample: [sample[name] for name in names])
        try:
            return nncf.quantize(
                model,
                data,
                subset_size=count or len(samples),
                preset=nncf.QuantizationPreset.MIXED,
                ignored_scope=nncf.IgnoredScope(names=list(keep)) if keep else None,
                advanced_parameters=advanced,
            )
        except EnginebayError:
            raise
        except Exception as err:
            raise ConversionError(f"NNCF cannot quantise the model: {reason(err)}") from err


def quantizable_nodes(model: ov.Model, samples: CalibrationData) -> dict[str, str]:
    """Return the operators whose inputs NNCF quantises, by the nodes' names.

    Args:
        model: The network.
        samples: Inputs by name; the first is read.

    Raises:
        UsageError: The sample does not fit the network's inputs.
        ConversionError: NNCF failed.
    """
    quantised = quantize(model, samples, count=1)
    found = {}
    for op in quantised.get_ordered_ops():
        if op.get_type_name() == "FakeQuantize" and not _is_weight(op.input_value(0).get_node()):
            for port in op.output(0).get_target_inputs():
                node = port.get_node()
                found[node.get_friendly_name()] = node.get_type_name()
    return found


def _is_weight(node: ov.Node) -> bool:
    """Return True if the node holds weights, be it behind a conversion."""
    if node.get_type_name() == "Convert":
        node = node.input_value(0).get_node()
    return str(node.get_type_name()) == "Constant"


def _name_nodes(model: ov.Model) -> None:
    """Give nodes without a name one that is the same the next time the model is read."""
    counts: Counter[str] = Counter()
    for op in model.get_ordered_ops():
        kind = op.get_type_name()
        counts[kind] += 1
        if op.get_friendly_name() == op.get_name():  # numbered over all models of the process
            op.set_friendly_name(f"{kind}_{counts[kind]}")
