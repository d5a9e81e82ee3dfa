"""Execution times of an engine's layers, as the engine's backend measures them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from enginebay.errors import PluginError, UsageError
from enginebay.hooks import LayersRequest, TimedLayer, WrapperRequest
from enginebay.plugins import load_backend

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.tensors import NumpyArray


def times_layers(backend: str) -> bool:
    """Return True if a backend implements the hook that times the layers of its engines."""
    return load_backend(backend).implements("time_layers")


def time_layers(
    request: WrapperRequest, inputs: Mapping[str, NumpyArray], runs: int
) -> list[TimedLayer]:
    """Load an engine with its backend, and return the execution times of its layers.

    Raises:
        UsageError: The backend or the installed engine cannot time layers.
        PluginError: The plugin did not return layers with times.
    """
    name = request.backend
    layers = load_backend(name).call_typed(
        "time_layers",
        Sequence,  # type: ignore[type-abstract]  # for isinstance
        LayersRequest(load=request, inputs=inputs, runs=runs),
    )
    if layers is None:
        raise UsageError(f"backend '{name}' does not time layers")
    for layer in layers:
        if not isinstance(layer, TimedLayer) or not 0 <= layer.seconds < math.inf:  # not NaN
            raise PluginError(
                f"time_layers() of '{name}' returned {layer!r}: expected a TimedLayer whose "
                "'seconds' are finite and not negative"
            )
    return list(layers)
