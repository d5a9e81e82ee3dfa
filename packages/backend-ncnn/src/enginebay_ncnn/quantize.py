"""Quantise convolutions and inner products to int8, with scales from calibration data.

No Python package contains ncnn's own programs for quantisation, but the file format is simple. A
parameter tells that the layer is int8. A tag and the 8-bit weights replace the float weights. The
scales follow the bias: one for each output channel, and one for the input. A scale is 127 divided
by the largest magnitude of the channel's weights, or of the input over the whole data set.

Weights use the whole 8-bit range: on x86 without VNNI, ncnn multiplies in 16 bits and adds in 32
bits, with the same result as with VNNI.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import enginebay as eb
from enginebay.errors import ConversionError
from enginebay_ncnn.graph import Graph
from enginebay_ncnn.network import load_network
from enginebay_ncnn.plan import Plan
from enginebay_ncnn.session import Session
from enginebay_ncnn.weights import split_weights
from enginebay_ncnn.wrapper import NcnnWrapper

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from enginebay.authors.arrays import NumpyArray
    from enginebay.hooks import CalibrationData
    from enginebay_ncnn.graph import Layer
    from enginebay_ncnn.params import NcnnParams

#: The layers that ncnn computes in 8 bits, each with the id of a parameter: whether the layer has a
#: bias, its number of weights, and its number of weight rows, of which each has a scale.
_BIAS = {"Convolution": 5, "ConvolutionDepthWise": 5, "InnerProduct": 1}
_COUNT = {"Convolution": 6, "ConvolutionDepthWise": 6, "InnerProduct": 2}
_ROWS = {"Convolution": 0, "ConvolutionDepthWise": 7, "InnerProduct": 0}
#: The value of parameter 8, int8_scale_term, which marks a layer as int8.
_SCALE_TERM = {"Convolution": 2, "ConvolutionDepthWise": 1, "InnerProduct": 2}

#: The tags before weights in ncnn's files.
_FLOAT32, _INT8 = bytes(4), (0x000D4B38).to_bytes(4, "little")

_INT8_MAX = 127


def quantizable_layers(graph: Graph) -> dict[str, str]:
    """Return the types, by layer name, of the layers that ncnn can compute in 8 bits."""
    return {layer.name: layer.type for layer in graph.layers if _has_int8_form(layer)}


def _has_int8_form(layer: Layer) -> bool:
    if layer.type not in _BIAS or not layer.int_param(_COUNT[layer.type]):
        return False  # the weights are an input
    if layer.type != "ConvolutionDepthWise":
        return True
    # ncnn computes wrong numbers in 8 bits if a group has several input channels.
    width = layer.int_param(1)
    taps = width * (layer.int_param(11) or width)
    return layer.int_param(6) == layer.int_param(0) * taps


def quantize(
    param: Path,
    weights: Path,
    plan: Path,
    params: NcnnParams,
    samples: CalibrationData,
    keep: Iterable[str] = (),
) -> None:
    """Rewrite the files of a network in place so that layers compute in 8 bits.

    Args:
        param: The ``.param`` file of the network in single precision.
        weights: The ``.bin`` file with the network's weights.
        plan: The JSON file that maps the model's inputs and outputs to the network's blobs.
        params: The backend's parameters.
        samples: The calibration data: input arrays by name.
        keep: Names of layers to leave in single precision.

    Raises:
        ConversionError: The network has no layers to quantise, or ncnn rejects a layer when the
            layer is loaded separately.
        InferenceError: ncnn cannot run the network on a sample.
    """
    graph = Graph.read(param)
    names = quantizable_layers(graph).keys() - set(keep)
    if not names:
        raise ConversionError(
            f"the network has no layers to quantise: expected one of {', '.join(_BIAS)}",
            hint="--precision fp16",
        )
    layers = [layer for layer in graph.layers if layer.name in names]
    ranges = _input_ranges(layers, param, weights, plan, params, samples)
    parts = split_weights(graph.layers, weights.read_bytes())
    for index, layer in enumerate(graph.layers):
        if layer.name in names and parts[index].startswith(_FLOAT32):
            parts[index] = _quantize_weights(layer, parts[index], ranges[layer.inputs[0]])
            layer.params.append(f"8={_SCALE_TERM[layer.type]}")
    graph.write(param)
    weights.write_bytes(b"".join(parts))


def _input_ranges(
    layers: Iterable[Layer],
    param: Path,
    weights: Path,
    plan: Path,
    params: NcnnParams,
    samples: CalibrationData,
) -> dict[str, float]:
    """Return the largest magnitude of each layer's input over all samples, by blob name."""
    # Light mode frees a blob as soon as the layers that read it have run.
    net, _ = load_network(param, weights, params.replace(light_mode=False))
    ports = Plan.read(plan)
    session = _RangeRecorder(net, ports, {layer.inputs[0] for layer in layers})
    receipt = eb.Receipt(engine="ncnn", device=params.device)
    with NcnnWrapper(session, ports, receipt=receipt) as wrapper:
        for sample in samples:
            wrapper(sample)
    return session.ranges


class _RangeRecorder(Session):
    """Runs a network, and records the largest magnitude of the elements of each blob in ``blobs``.

    Args:
        net: The loaded network, not in light mode.
        plan: The mapping between the network's blobs and the model's tensors.
        blobs: The names of the blobs to record.

    Attributes:
        ranges: The largest magnitude so far, by blob name.
    """

    def __init__(self, net: object, plan: Plan, blobs: Iterable[str]) -> None:
        super().__init__(net, plan)
        self.ranges = dict.fromkeys(blobs, 0.0)

    def _run(self, feed: Mapping[str, NumpyArray]) -> list[NumpyArray]:
        extractor = self.extractor(feed)
        for blob, known in self.ranges.items():
            magnitude = np.abs(np.array(self._extract(extractor, blob, blob, blob))).max()
            self.ranges[blob] = max(known, float(magnitude))
        return self._extract_outputs(extractor)


def _quantize_weights(layer: Layer, part: bytes, magnitude: float) -> bytes:
    """Convert a layer's bytes of the ``.bin`` file to 8-bit weights, followed by bias and scales.

    ``magnitude`` is the largest magnitude of the layer's input.
    """
    count, rows = layer.int_param(_COUNT[layer.type]), layer.int_param(_ROWS[layer.type])
    bias = layer.int_param(_BIAS[layer.type]) and layer.int_param(0)
    values = np.frombuffer(part, np.float32, count, offset=4).reshape(rows, -1)
    scales = _compute_scale(np.abs(values).max(1))
    integers = np.rint(values * scales[:, None]).astype(np.int8).tobytes()
    padding = bytes(-len(integers) % 4)  # ncnn reads 8-bit weights in multiples of 4 bytes
    biases = part[4 + 4 * count : 4 + 4 * (count + bias)]
    return b"".join(
        (_INT8, integers, padding, biases, scales.tobytes(), _compute_scale(magnitude).tobytes())
    )


def _compute_scale(magnitude: NumpyArray | float) -> NumpyArray:
    """Return the factor that maps a magnitude to 127, or 1 if the magnitude is 0."""
    largest = np.asarray(magnitude, np.float32)
    return np.divide(_INT8_MAX, largest, out=np.ones_like(largest), where=largest > 1e-30)
