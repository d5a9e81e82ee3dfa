"""Operators for onnx's evaluator, from ONNX's definition of them.

onnx 1.23.2's own are false or missing at some opsets or attributes; tests/evaluator compares all of
them with ONNX Runtime. Where onnx's is right elsewhere, it is run as of another opset.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from onnx.defs import get_schema
from onnx.helper import make_node
from onnx.reference.op_run import OpRun
from onnx.reference.ops import load_op

from enginebay.tensors import NumpyArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx import NodeProto

Arrays: TypeAlias = tuple[NumpyArray, ...]


class Operator(OpRun):  # type: ignore[misc]  # onnx has no types
    """An operator whose attributes have the defaults of the file's own opset.

    onnx's have those of the newest: a Softmax of opset 11 gets the last axis, not all from 1 on.
    """

    op_domain = ""

    def __init__(self, node: NodeProto, run_params: dict[str, Any]) -> None:
        self.opset: int = run_params["opsets"][""]
        super().__init__(node, run_params, get_schema(node.op_type, self.opset, ""))

    def run_as(self, kind: str, opset: int, inputs: Sequence[Any], attributes: Any) -> Arrays:
        """Run the evaluator's own operator of another type or opset."""
        names = [f"input_{number}" for number in range(len(inputs))]
        known = {name: value for name, value in attributes.items() if value is not None}
        node = make_node(kind, names, self.onnx_node.output, **known)
        params = {**self.run_params, "opsets": {"": opset}, "new_ops": {}}
        found: Arrays = load_op("", kind, opset)(node, params).run(*inputs)
        return found


class BatchNormalization(Operator):
    """onnx's blends in the batch's statistics below opset 14, as in training."""

    def _run(self, x: NumpyArray, *weights: NumpyArray, epsilon: float, **others: Any) -> Arrays:
        if others.get("training_mode"):
            others["epsilon"] = epsilon
            return self.run_as("BatchNormalization", self.opset, (x, *weights), others)
        # With spatial=0, below opset 9, each element of an item has its own weights.
        scale, bias, mean, variance = (
            each.reshape(-1, *[1] * (x.ndim - 2)) if each.ndim == 1 else each for each in weights
        )
        factor = scale / np.sqrt(variance + epsilon)
        return (((x - mean) * factor + bias).astype(x.dtype, copy=False),)


class Softmax(Operator):
    """Below opset 13 over all axes from ``axis`` on."""

    def _run(self, x: NumpyArray, axis: int) -> Arrays:
        rows, axis = x, axis % x.ndim
        if self.opset < 13:
            rows, axis = x.reshape(int(np.prod(x.shape[:axis])), -1), 1
        return (self._compute(rows, axis).reshape(x.shape).astype(x.dtype) if x.size else x,)

    def _compute(self, x: NumpyArray, axis: int) -> Any:
        powers = np.exp(x - x.max(axis, keepdims=True))
        return powers / powers.sum(axis, keepdims=True)


class LogSoftmax(Softmax):
    """Finite where the probability rounds to 0."""

    def _compute(self, x: NumpyArray, axis: int) -> Any:
        below = x - x.max(axis, keepdims=True)
        return below - np.log(np.exp(below).sum(axis, keepdims=True))


class Hardmax(Softmax):
    """1 at the first largest element, and 0 elsewhere."""

    def _compute(self, x: NumpyArray, axis: int) -> Any:
        places = np.arange(x.shape[axis]).reshape(-1, *[1] * (x.ndim - axis - 1))
        return places == x.argmax(axis, keepdims=True)


class LRN(Operator):
    """onnx's normalises as many channels as the batch has items."""

    def _run(self, x: NumpyArray, alpha: float, beta: float, bias: float, size: int) -> Arrays:
        squares = np.pad(x**2, [(0, 0), ((size - 1) // 2, size // 2), *[(0, 0)] * (x.ndim - 2)])
        total = sum(squares[:, shift : shift + x.shape[1]] for shift in range(size))
        return ((x / (bias + alpha / size * total) ** beta).astype(x.dtype),)


class LpNormalization(Operator):
    """onnx's takes no absolute value."""

    def _run(self, x: NumpyArray, axis: int, p: int) -> Arrays:
        norm = (np.abs(x) ** p).sum(axis, keepdims=True) ** (1 / p)
        return (np.divide(x, norm, out=np.zeros_like(x), where=norm != 0),)


#: Numbers whose temporary results stay in a processor's cache.
_CACHED = 1 << 15


class _Elementwise(Operator):
    """A function of each element, computed for some after the others."""

    def _run(self, x: NumpyArray) -> Arrays:
        flat, found = x.reshape(-1), np.empty(x.size, x.dtype)
        for start in range(0, x.size, _CACHED):
            part = slice(start, start + _CACHED)
            found[part] = self._compute(flat[part])
        return (found.reshape(x.shape),)

    def _compute(self, x: NumpyArray) -> Any:
        raise NotImplementedError


class Sigmoid(_Elementwise):
    """onnx's takes two exponentials of each element."""

    def _compute(self, x: NumpyArray) -> Any:
        power = np.exp(-np.abs(x))
        return np.where(x < 0, power, 1) / (1 + power)


#: Points from 0 to 6, beyond which Erf is 1, with its values and slopes there.
_STEP = 1 / 512
_POINTS = np.arange(6 / _STEP + 1) * _STEP
_VALUES = np.array([math.erf(point) for point in _POINTS])
_SLOPES = 2 / math.sqrt(math.pi) * np.exp(-(_POINTS**2))


class Erf(_Elementwise):
    """onnx's takes one element after the other, and has single precision only."""

    def _compute(self, x: NumpyArray) -> Any:
        size = np.minimum(np.abs(x.astype(np.float64)), _POINTS[-1])
        index = np.nan_to_num(np.rint(size / _STEP)).astype(np.int64)
        point = _POINTS[index]
        # Taylor's series around the nearest point. The next term is below 1e-16.
        near, square = size - point, point**2
        third, fourth = (2 * square - 1) / 3, point * (0.5 - square / 3)
        terms = 1 + near * (near * (third + near * fourth) - point)
        return np.copysign(_VALUES[index] + _SLOPES[index] * near * terms, x)


def _find_places(indices: NumpyArray, axis: int) -> tuple[NumpyArray, ...]:
    """Return the index of each element that the indices of an axis name."""
    places: list[NumpyArray] = [*np.indices(indices.shape, sparse=True)]
    places[axis] = indices
    return tuple(places)


class GatherElements(Operator):
    """onnx's takes the wrong rows on axes of 64 elements or more."""

    def _run(self, x: NumpyArray, indices: NumpyArray, axis: int) -> Arrays:
        return (x[_find_places(indices, axis)],)


class ScatterElements(Operator):
    """onnx's takes one element after the other."""

    def _run(
        self, x: NumpyArray, indices: NumpyArray, updates: NumpyArray, axis: int, **others: Any
    ) -> Arrays:
        found, places = x.copy(), _find_places(indices, axis)
        ways = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
        if way := ways.get(others.get("reduction", "none")):
            way.at(found, places, updates)
        else:
            found[places] = updates
        return (found,)


class Squeeze(Operator):
    """Below opset 13, onnx's takes one axis after the other, in the order of the file."""

    def _run(self, x: NumpyArray, axes: Any = None) -> Arrays:
        return (np.squeeze(x, None if axes is None else tuple(axes)),)


class Unsqueeze(Operator):
    """As :class:`Squeeze`."""

    def _run(self, x: NumpyArray, axes: Any) -> Arrays:
        return (np.expand_dims(x, tuple(axes)),)


class Pad(Operator):
    """onnx's refuses negative sizes, which cut."""

    def _run(
        self, x: NumpyArray, pads: Any, value: Any = None, axes: Any = None, mode: str = "constant"
    ) -> Arrays:
        widths = np.zeros((x.ndim, 2), np.int64)
        widths[slice(None) if axes is None else axes] = np.reshape(pads, (2, -1)).T
        cuts = zip(x.shape, widths.clip(max=0).tolist(), strict=True)
        kept = x[tuple(slice(-before, size + after) for size, (before, after) in cuts)]
        fill: dict[str, Any] = {"constant_values": value or 0} if mode == "constant" else {}
        return (np.asarray(np.pad(kept, widths.clip(0), mode, **fill), x.dtype),)  # type: ignore[call-overload]


class OneHot(Operator):
    """onnx's refuses a vector of one element as the depth."""

    def _run(self, indices: NumpyArray, depth: Any, values: Any, **attributes: Any) -> Arrays:
        inputs = indices, np.reshape(depth, ()), values
        return self.run_as("OneHot", self.opset, inputs, attributes)


class NonMaxSuppression(Operator):
    """onnx's refuses to do without an optional input."""

    def _run(self, boxes: NumpyArray, scores: NumpyArray, *limits: Any, **others: Any) -> Arrays:
        given = [*limits, None, None, None]
        inputs: list[Any] = [boxes, scores]
        for limit, default in zip(given, (0, 0.0, -np.inf), strict=False):
            inputs.append(np.reshape(default if limit is None else limit, 1))
        return self.run_as("NonMaxSuppression", self.opset, inputs, others)


class RoiAlign(Operator):
    """Below opset 16 without the shift by half a pixel."""

    def _run(self, *inputs: NumpyArray, **attributes: Any) -> Arrays:
        attributes.setdefault("coordinate_transformation_mode", "output_half_pixel")
        return self.run_as("RoiAlign", max(self.opset, 16), inputs, attributes)


class GridSample(Operator):
    """The modes have other names below opset 20."""

    def _run(self, *inputs: NumpyArray, mode: str, **attributes: Any) -> Arrays:
        mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
        if mode == "cubic" and attributes["padding_mode"] == "border":
            raise NotImplementedError("onnx limits a point to the border, and not its neighbours")
        return self.run_as("GridSample", max(self.opset, 20), inputs, {**attributes, "mode": mode})


#: The mode of a Resize, its coordinates, and its rounding: those of half_pixel, rounded up.
_TENSORFLOW_NEAREST = ("nearest", "tf_half_pixel_for_nn", "floor")


class Resize(Operator):
    """onnx's lacks a mode, opset 10, and whole sizes where the scale leads to a fraction."""

    def _run(
        self, x: NumpyArray, *others: Any, coordinate_transformation_mode: str = "", **more: Any
    ) -> Arrays:
        way, (roi, scales, sizes) = coordinate_transformation_mode, (*others, None, None, None)[:3]
        if self.opset < 11:
            # Below opset 9, the scales are an attribute.
            roi, scales, way = None, np.float32(more.pop("scales", roi)), "asymmetric"
            more["nearest_mode"] = "floor"
        elif (more["mode"], way, more["nearest_mode"]) == _TENSORFLOW_NEAREST:
            way, more["nearest_mode"] = "half_pixel", "round_prefer_ceil"
        if scales is not None and np.size(scales):
            lengths = np.array(x.shape)[list(more.get("axes") or range(x.ndim))]
            scales = _find_meant_scales(lengths, np.asarray(scales))
            if way == "align_corners":
                scales, sizes = None, np.floor(lengths * scales).astype(np.int64)
        more["coordinate_transformation_mode"] = way
        return self.run_as("Resize", max(self.opset, 11), (x, roi, scales, sizes), more)


def _find_meant_scales(lengths: NumpyArray, scales: NumpyArray) -> NumpyArray:
    """Return scales in float64 that lead to the whole sizes which were meant.

    0.7 in float32 is a little less, and ten times of it is 7 in float32 alone, in which engines
    compute.
    """
    exact = lengths * scales.astype(np.float64)
    whole = np.round(exact)
    meant = whole / np.maximum(lengths, 1)
    meant = np.where(lengths * meant < whole, np.nextafter(meant, np.inf), meant)
    return np.where((np.abs(exact - whole) < 1e-6 * whole) & (whole > 0), meant, scales)


class Upsample(Resize):
    """The name of Resize below opset 10."""


class QuantizeLinear(Operator):
    """onnx's overflows where a quotient has more than 31 bits."""

    def _run(self, x: NumpyArray, scale: NumpyArray, *zero: Any, **attributes: Any) -> Arrays:
        if not attributes.get("block_size"):
            axis = attributes.get("axis", 1)
            shape = [-1 if i in (axis, axis + x.ndim) else 1 for i in range(x.ndim)]
            limit = np.abs(scale.reshape(shape) if scale.ndim else scale) * scale.dtype.type(2**24)
            x = np.clip(x, -limit, limit)
        return self.run_as("QuantizeLinear", max(self.opset, 19), (x, scale, *zero), attributes)


class DequantizeLinear(Operator):
    """onnx has none below opset 19."""

    def _run(self, *inputs: Any, **attributes: Any) -> Arrays:
        return self.run_as("DequantizeLinear", max(self.opset, 19), inputs, attributes)


class STFT(Operator):
    """onnx's demands the last axis, which real signals may lack."""

    def _run(
        self,
        signal: NumpyArray,
        step: Any,
        window: Any = None,
        length: Any = None,
        onesided: int = 1,
    ) -> Arrays:
        values: NumpyArray = signal if signal.ndim == 2 else signal[..., 0]
        if signal.ndim == 3 and signal.shape[-1] == 2:
            values = values + 1j * signal[..., 1]
        size = len(window) if length is None else int(length)
        frames = np.lib.stride_tricks.sliding_window_view(values, size, 1)[:, :: int(step)]
        transform = np.fft.rfft if onesided else np.fft.fft
        found = transform(frames if window is None else frames * window)
        return (np.stack([found.real, found.imag], -1).astype(signal.dtype),)
