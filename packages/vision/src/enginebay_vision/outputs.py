"""Reads and checks a model's outputs for one image, and converts outputs to scores."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Literal

import numpy as np

from enginebay.errors import InferenceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.authors.arrays import NumpyArray

#: The function that converts a network's outputs to scores from 0 to 1.
Activation = Literal["softmax", "sigmoid", "none"]


def read_finite(
    outputs: Mapping[str, NumpyArray], name: str, dtype: type[np.float32 | np.float64] = np.float64
) -> NumpyArray:
    """Return an output for one image as floats, without the batch axis.

    Raises:
        InferenceError: The output is missing, or contains NaN or infinity.
    """
    values = read_output(outputs, name).astype(dtype, copy=False)
    if not np.isfinite(values).all():
        raise InferenceError(f"output '{name}' contains NaN or infinity")
    return values


def read_output(outputs: Mapping[str, NumpyArray], name: str) -> NumpyArray:
    """Return an output for one image, without the batch axis."""
    if name not in outputs:
        raise InferenceError(f"unknown output '{name}'; available: {', '.join(outputs)}")
    values = np.asarray(outputs[name])
    return values[0] if values.ndim > 1 and len(values) == 1 else values


def apply_activation(values: NumpyArray, activation: Activation) -> NumpyArray:
    """Convert a network's outputs to scores from 0 to 1; softmax is along the last axis."""
    if activation == "none" or not values.size:
        return values
    if activation == "sigmoid":
        # 1 / (1 + exp(-x)), which would overflow for large negative values.
        return np.exp(-np.logaddexp(0, -values))
    # Subtracting the maximum does not change the result, and prevents overflow.
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    probabilities: NumpyArray = powers / powers.sum(axis=-1, keepdims=True)
    return probabilities


def read_channels_first(outputs: Mapping[str, NumpyArray], name: str, layout: str) -> NumpyArray:
    """Return an output with several maps, such as heatmaps, for one image: ``C×h×w float32``."""
    values = read_finite(outputs, name, np.float32)
    if values.ndim != 3 or 0 in values.shape:
        raise _wrong_shape(name, values, "C×h×w" if layout == "NCHW" else "h×w×C")
    return values if layout == "NCHW" else values.transpose(2, 0, 1)


def read_map(outputs: Mapping[str, NumpyArray], name: str) -> NumpyArray:
    """Return an output with a single map, such as depths, for one image: ``h×w float32``."""
    values = read_finite(outputs, name, np.float32)
    values = values[0] if values.ndim == 3 and len(values) == 1 else values  # one channel
    if values.ndim != 2 or 0 in values.shape:
        raise _wrong_shape(name, values, "h×w")
    return values


def read_masks(outputs: Mapping[str, NumpyArray], name: str) -> NumpyArray:
    """Return an output with a mask for each box, for one image: ``N×h×w``, in the output's dtype.

    The output may have a batch axis before the boxes, and an axis of one channel after them.
    """
    read_output(outputs, name)  # raises if it is missing; an only box is not a batch of one
    values = np.asarray(outputs[name])
    leading, size = values.shape[:-2], values.shape[-2:]
    if not leading or sum(count != 1 for count in leading) > 1 or 0 in size:
        raise _wrong_shape(name, values, "N×h×w or N×1×h×w")
    return values.reshape(prod(leading), *size)


def _wrong_shape(name: str, values: NumpyArray, expected: str) -> InferenceError:
    return InferenceError(
        f"output '{name}' has the shape {values.shape} for one image; expected {expected}"
    )
