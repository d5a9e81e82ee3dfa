"""Bisection: the first place where an engine leaves PyTorch, by module and by node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.bisection.graph import Graph
    from enginebay.bisection.nodes import NodeSearch
    from enginebay.bisection.pieces import Piece, Pieces
    from enginebay.bisection.record import Bisection, Node, Place, Step
    from enginebay.bisection.search import Culprit, Judgement, ModuleSearch, Subject
    from enginebay.bisection.taps import Tap, sizes, tensors_in

__all__ = [
    "Bisection",
    "Culprit",
    "Graph",
    "Judgement",
    "ModuleSearch",
    "Node",
    "NodeSearch",
    "Piece",
    "Pieces",
    "Place",
    "Step",
    "Subject",
    "Tap",
    "sizes",
    "tensors_in",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Bisection": "bisection.record",
        "Culprit": "bisection.search",
        "Graph": "bisection.graph",
        "Judgement": "bisection.search",
        "ModuleSearch": "bisection.search",
        "Node": "bisection.record",
        "NodeSearch": "bisection.nodes",
        "Piece": "bisection.pieces",
        "Pieces": "bisection.pieces",
        "Place": "bisection.record",
        "Step": "bisection.record",
        "Subject": "bisection.search",
        "Tap": "bisection.taps",
        "sizes": "bisection.taps",
        "tensors_in": "bisection.taps",
    },
)
