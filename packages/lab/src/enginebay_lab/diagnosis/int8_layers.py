"""The layers of an 8-bit engine: what each costs alone."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec

from enginebay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from enginebay import Verification
    from enginebay.operations.build_engine import Engine
    from enginebay_lab.diagnosis.judged import Judge

#: Items that a node is calibrated with and measured on: those that the verdict is on.
RANKED_ON = 64


class NodeSensitivity(msgspec.Struct, frozen=True):
    """What one node costs in 8 bits, while all others are in floating point.

    Attributes:
        node: Its name in the engine's graph.
        operator: Its operator, by the engine's name for it.
        decibels: The output's signal above its noise, in dB; of several outputs, the least. None
            where there is no noise.
    """

    node: str
    operator: str
    decibels: float | None


def rank_nodes(
    engine: Engine, judge: Judge, set_detail: Callable[[str], None]
) -> list[NodeSensitivity]:
    """Measure each node alone in 8 bits, on the items of the verdict; the costliest comes first.

    Args:
        engine: The engine. Nodes that it keeps in floating point are not measured.
        judge: Gives the verdict on an engine, with the signals of its outputs.
        set_detail: Called with the progress.

    Raises:
        UsageError: The backend cannot keep nodes in floating point, or there are none.
    """
    nodes = engine.quantizable_nodes()
    measured = [node for node in nodes if node not in engine.kept]
    if not measured:
        raise UsageError("the network has no node that would be in 8 bits")
    data = engine.build.data
    assert data is not None  # the settings were checked
    found = []
    for number, node in enumerate(measured, 1):
        set_detail(f"{number} of {len(measured)}: {node}")
        with TemporaryDirectory(prefix=".rank-", dir=engine.build.folder) as folder:
            kept = [other for other in nodes if other != node]
            trial = engine.converted_again(kept, Path(folder), data.some(RANKED_ON))
            levels = _levels(judge(trial).verification)
        found.append(NodeSensitivity(node, nodes[node], min(levels, default=None)))
    set_detail(f"{len(found)} nodes, one by one")
    return sorted(found, key=lambda one: math.inf if one.decibels is None else one.decibels)


def _levels(verification: Verification) -> list[float]:
    """The outputs' signals above their noise on the items, in dB; none where there is no noise."""
    signals = [signal for signal in verification.signals if signal.place == "items"]
    return [signal.decibels for signal in signals if signal.decibels is not None]
