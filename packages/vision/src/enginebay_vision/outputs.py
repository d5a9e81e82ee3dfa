"""A network's outputs for one picture, as numbers and as scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from enginebay.errors import InferenceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.authors import NumpyArray

#: What makes scores from 0 to 1 of a network's numbers.
Activation = Literal["softmax", "sigmoid", "none"]


def numbers(
    outputs: Mapping[str, NumpyArray], name: str, dtype: type[np.floating[Any]] = np.float64
) -> NumpyArray:
    """An output for one picture as floats, without its batch.

    Raises:
        InferenceError: It is missing, or holds numbers that are not finite.
    """
    found = one_picture(outputs, name).astype(dtype, copy=False)
    if not np.isfinite(found).all():
        raise InferenceError(f"output '{name}' holds numbers that are not finite")
    return found


def one_picture(outputs: Mapping[str, NumpyArray], name: str) -> NumpyArray:
    """An output for one picture: without the batch, which has one entry."""
    if name not in outputs:
        raise InferenceError(f"there is no output '{name}' among {', '.join(outputs)}")
    found = np.asarray(outputs[name])
    return found[0] if found.ndim > 1 and len(found) == 1 else found


def activated(values: NumpyArray, activation: Activation) -> NumpyArray:
    """Scores along the last axis, from 0 to 1."""
    if activation == "none" or not values.size:
        return values
    if activation == "sigmoid":
        return np.exp(-np.logaddexp(0, -values))
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    odds: NumpyArray = powers / powers.sum(axis=-1, keepdims=True)
    return odds


def channels_first(outputs: Mapping[str, NumpyArray], name: str, layout: str) -> NumpyArray:
    """An output of maps for one picture, ``C×h×w float32``.

    Raises:
        InferenceError: It is missing, has other axes, or holds numbers that are not finite.
    """
    values = numbers(outputs, name, np.float32)
    if values.ndim != 3 or 0 in values.shape:
        raise _wrong_shape(name, values, "C×h×w" if layout == "NCHW" else "h×w×C")
    return values if layout == "NCHW" else values.transpose(2, 0, 1)


def one_map(outputs: Mapping[str, NumpyArray], name: str) -> NumpyArray:
    """An output of one map for one picture, ``h×w float32``.

    Raises:
        InferenceError: It is missing, has other axes, or holds numbers that are not finite.
    """
    values = numbers(outputs, name, np.float32)
    values = values[0] if values.ndim == 3 and len(values) == 1 else values
    if values.ndim != 2 or 0 in values.shape:
        raise _wrong_shape(name, values, "h×w")
    return values


def _wrong_shape(name: str, values: NumpyArray, wanted: str) -> InferenceError:
    return InferenceError(
        f"output '{name}' has the shape {values.shape} for a picture, wanted {wanted}"
    )
