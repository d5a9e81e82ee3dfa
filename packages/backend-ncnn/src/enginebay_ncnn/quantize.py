"""int8: convolutions and inner products with 8-bit weights, and scales for what they take.

ncnn's own programs for this are in no package for Python, but the form that they write is simple: a
parameter says that a layer is in 8 bits, its weights are bytes with a mark before them, and behind
the bias stand a scale for each output channel and one for the input. All scales are symmetric: 127
by the greatest magnitude, in the weights and over all items of the data set.

Weights have all of the 8-bit range: on x86 ncnn multiplies in 16 bits and adds in 32 where there is
no VNNI, and gives the same bits with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import enginebay as eb
from enginebay.errors import ConversionError
from enginebay_ncnn.graph import Graph
from enginebay_ncnn.network import load
from enginebay_ncnn.plan import Plan
from enginebay_ncnn.session import Session
from enginebay_ncnn.weights import split_weights
from enginebay_ncnn.wrapper import NcnnWrapper

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from enginebay.authors import NumpyArray
    from enginebay.hooks import CalibrationData
    from enginebay_ncnn.graph import Layer
    from enginebay_ncnn.params import NcnnParams

#: The parameters of the layers that ncnn computes in 8 bits: the bias, the number of weights, the
#: rows that have a scale each, and what the parameter ``8`` says of them.
_BIAS = {"Convolution": 5, "ConvolutionDepthWise": 5, "InnerProduct": 1}
_COUNT = {"Convolution": 6, "ConvolutionDepthWise": 6, "InnerProduct": 2}
_ROWS = {"Convolution": 0, "ConvolutionDepthWise": 7, "InnerProduct": 0}
_FORM = {"Convolution": 2, "ConvolutionDepthWise": 1, "InnerProduct": 2}

#: The marks before weights in ncnn's files.
_FLOAT32, _INT8 = bytes(4), (0x000D4B38).to_bytes(4, "little")

_LARGEST = 127


def quantizable_layers(graph: Graph) -> dict[str, str]:
    """Return the layers that ncnn has in 8 bits: their types by name."""
    return {layer.name: layer.type for layer in graph.layers if _has_form(layer)}


def _has_form(layer: Layer) -> bool:
    if layer.type not in _BIAS or not layer.param(_COUNT[layer.type]):
        return False  # a layer without weights of its own takes them as an input
    if layer.type != "ConvolutionDepthWise":
        return True
    # ncnn is wrong in 8 bits where a group has several input channels.
    width = layer.param(1)
    taps = width * (layer.param(11) or width)
    return layer.param(6) == layer.param(0) * taps


def quantize(
    param: Path,
    weights: Path,
    plan: Path,
    params: NcnnParams,
    samples: CalibrationData,
    keep: Iterable[str] = (),
) -> None:
    """Rewrite a network in place with 8-bit layers.

    Args:
        param: The network in single precision.
        weights: Its weights.
        plan: The mapping of its blobs.
        params: The backend's parameters.
        samples: Inputs by name.
        keep: Names of layers that stay as they are.

    Raises:
        ConversionError: The network has nothing to quantise, or ncnn cannot load a layer alone.
        InferenceError: ncnn cannot run it on a sample.
    """
    graph = Graph.read(param)
    names = quantizable_layers(graph).keys() - set(keep)
    if not names:
        raise ConversionError(
            f"the network holds nothing to quantise: wanted {', '.join(_BIAS)}",
            hint="--precision fp16",
        )
    layers = [layer for layer in graph.layers if layer.name in names]
    ranges = _input_ranges(layers, param, weights, plan, params, samples)
    parts = split_weights(graph.layers, weights.read_bytes())
    for place, layer in enumerate(graph.layers):
        if layer.name in names and parts[place].startswith(_FLOAT32):
            parts[place] = _int8(layer, parts[place], ranges[layer.inputs[0]])
            layer.params.append(f"8={_FORM[layer.type]}")
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
    """The greatest magnitude of each layer's input, by the blob."""
    # In light mode a blob is gone once the layers that read it have run.
    net, _ = load(param, weights, params.replace(light_mode=False))
    ports = Plan.read(plan)
    session = _Watching(net, ports, {layer.inputs[0] for layer in layers})
    receipt = eb.Receipt(engine="ncnn", device=params.device)
    with NcnnWrapper(session, ports, receipt=receipt) as wrapper:
        for sample in samples:
            wrapper(sample)
    return session.ranges


class _Watching(Session):
    """A session that keeps the greatest magnitude of some blobs.

    Args:
        net: The loaded network, not in light mode.
        plan: The mapping of its blobs.
        blobs: The blobs.
    """

    def __init__(self, net: object, plan: Plan, blobs: Iterable[str]) -> None:
        super().__init__(net, plan)
        self.ranges = dict.fromkeys(blobs, 0.0)

    def _run(self, feed: Mapping[str, NumpyArray]) -> list[NumpyArray]:
        extractor = self.extractor(feed)
        for blob, known in self.ranges.items():
            found = np.abs(np.array(self._blob(extractor, blob, blob, blob))).max()
            self.ranges[blob] = max(known, float(found))
        return self._results(extractor)


def _int8(layer: Layer, part: bytes, magnitude: float) -> bytes:
    """A layer's bytes with its weights in 8 bits, and their scales behind them."""
    count, rows = layer.param(_COUNT[layer.type]), layer.param(_ROWS[layer.type])
    bias = layer.param(_BIAS[layer.type]) and layer.param(0)
    values = np.frombuffer(part, np.float32, count, offset=4).reshape(rows, -1)
    scales = _scale(np.abs(values).max(1))
    integers = np.rint(values * scales[:, None]).astype(np.int8).tobytes()
    padding = bytes(-len(integers) % 4)
    biases = part[4 + 4 * count : 4 + 4 * (count + bias)]
    return b"".join(
        (_INT8, integers, padding, biases, scales.tobytes(), _scale(magnitude).tobytes())
    )


def _scale(magnitude: NumpyArray | float) -> NumpyArray:
    """What turns a range into the integers from -127 to 127; 1 where there is nothing but 0."""
    found = np.asarray(magnitude, np.float32)
    return np.divide(_LARGEST, found, out=np.ones_like(found), where=found > 1e-30)
