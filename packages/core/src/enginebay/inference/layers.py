"""A layer of an engine, as the engine names and times it."""

from __future__ import annotations

import msgspec


class TimedLayer(msgspec.Struct, frozen=True, kw_only=True):
    """One layer of an engine.

    Attributes:
        name: The engine's own name for it.
        operator: The engine's own word for what it does; empty where it does not say.
        seconds: The median over the runs.
        nodes: The nodes of the IR that it computes, in order: several where the engine has fused
            them; none where it has added the layer itself, or does not say.
    """

    name: str
    operator: str = ""
    seconds: float
    nodes: tuple[str, ...] = ()
