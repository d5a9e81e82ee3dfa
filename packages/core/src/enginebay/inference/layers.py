"""Execution time of an engine's layers, as the engine's own profiler reports it."""

from __future__ import annotations

import msgspec


class TimedLayer(msgspec.Struct, frozen=True, kw_only=True):
    """One layer of an engine.

    Attributes:
        name: The engine's name for it.
        operator: The engine's name for its operator; empty if the engine does not report it.
        seconds: The median over the runs.
        nodes: The nodes of the IR that it computes, in order. Several if the engine has fused
            them; empty if the engine has inserted the layer, or does not report its nodes.
    """

    name: str
    operator: str = ""
    seconds: float
    nodes: tuple[str, ...] = ()
