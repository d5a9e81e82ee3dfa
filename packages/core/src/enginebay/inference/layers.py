"""Execution times of an engine's layers, as the engine's profiler reports them."""

from __future__ import annotations

import msgspec


class TimedLayer(msgspec.Struct, frozen=True, kw_only=True):
    """One layer of an engine.

    Attributes:
        name: The layer's name in the engine.
        operator: The name of the layer's operator in the engine; empty if the engine does not
            report operators.
        seconds: The median duration of the layer over all runs.
        nodes: The names of the IR's nodes that the layer computes, in order. There are several if
            the engine has fused nodes, and none if the engine has inserted the layer or does not
            report nodes.
    """

    name: str
    operator: str = ""
    seconds: float
    nodes: tuple[str, ...] = ()
