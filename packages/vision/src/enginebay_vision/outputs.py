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
