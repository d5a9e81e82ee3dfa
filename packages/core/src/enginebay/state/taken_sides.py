"""Decisions of a forward pass: which of their sides a run took, and where the model decides.

A decision is a discrete value that depends on the inputs' floats: the index of the largest score,
the row of a table that a computed index reads, a comparison, a box that overlaps another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torch import Tensor

    from enginebay.tensors import NumpyArray

#: Operators that return the index of the largest or smallest values along a dimension, with the
#: position of this dimension among their arguments.
SELECTING = {"argmax": 1, "argmin": 1, "max": 1, "min": 1, "topk": 2}

#: Operators whose truth values are decisions.
_COMPARING = frozenset(("eq", "ne", "gt", "ge", "lt", "le"))
CONDITIONS = _COMPARING | frozenset(
    (
        *("logical_and", "logical_or", "logical_not", "bitwise_and", "bitwise_or", "bitwise_not"),
        *("any", "all", "triu", "tril", "isin", "_to_copy"),
    )
)

#: Step functions, which return floats: 0 is where they decide.
STEPS = frozenset(("sign", "heaviside"))

_NAN_TESTS = frozenset(("isnan", "isinf", "isfinite", "isposinf", "isneginf"))

#: A comparison of so many columns or fewer is asked for each column of its last axis: labels,
#: gates. Larger ones are those of activations.
_MAX_COLUMNS = 64

#: An axis of so many entries or fewer that the inputs determine may be one of kinds (experts), a
#: longer one is of positions (anchors, tokens), of which a few samples take only some.
MAX_KINDS = 256

#: A choice of more entries at once than this, which are read from what the inputs determine, is one
#: of positions.
MAX_PICKED = 8


@dataclass
class TakenSides:
    """The sides of a decision that were taken.

    Attributes:
        place: File and line of the model: ``folder/net.py:12``; empty if it is unknown.
        kind: ``choice`` (one index of several), ``row`` (of a table), ``condition`` or
            ``suppression`` (a box is left out, since it overlaps another one).
        taken: For each side, True if it was taken. For conditions, an array of one row for each
            column, or one for all: whether it was False, and whether it was True.
        parents: The keys of the decisions from which this one follows.
        used: True if the index has been compared, looked up or returned.
        output: Name of the output that is this value; empty if it is none.
        picked: Number of entries that are chosen at once.
    """

    place: str
    kind: str
    taken: NumpyArray
    parents: frozenset[str] = frozenset()
    used: bool = True
    output: str = ""
    picked: int = 1

    @property
    def missing(self) -> list[tuple[int, ...]]:
        """The index in ``taken`` of each side that was not taken."""
        return [tuple(side) for side in np.argwhere(~self.taken).tolist()]


def merge_sides(runs: Iterable[Mapping[str, TakenSides]]) -> dict[str, TakenSides]:
    """Return which sides were taken in any of several runs: key of the decision → sides.

    A choice among as many entries as an input has is one of positions, and left out: their number
    differs between runs.
    """
    merged: dict[str, TakenSides] = {}
    for run in runs:
        for key, sides in run.items():
            if (known := merged.get(key)) is None:
                taken = sides.taken
            elif known.taken.shape == sides.taken.shape:
                taken = known.taken | sides.taken
            elif sides.kind == "condition":
                taken = np.stack([known.taken.any(0) | sides.taken.any(0)])
            else:
                taken = np.ones(0, np.bool_)  # never shaped as a run's, and nothing is missing
            used, output = sides.used, sides.output
            if known is not None:
                used, output = used or known.used, output or known.output
            merged[key] = TakenSides(sides.place, sides.kind, taken, sides.parents, used, output)
    return merged


def read_dim(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> int | None:
    """Return the dimension along which an operator of ``SELECTING`` runs; None for the tensor."""
    position = SELECTING[name]
    usual = -1 if name == "topk" else None
    dim = kwargs.get("dim", args[position] if len(args) > position else usual)
    return dim if isinstance(dim, int) else 0 if args[0].dim() == 1 else None


def mark_indices(indices: Tensor, count: int) -> NumpyArray:
    """Return for each of ``count`` entries whether one of the indices is its own."""
    taken = np.zeros(count, np.bool_)
    taken[np.unique(indices.cpu().numpy()) % max(count, 1)] = True
    return taken


def tests_for_nan(name: str, args: Sequence[Any]) -> bool:
    """Return True for an operator that tests for NaN or infinity."""
    other = args[1] if len(args) > 1 else None
    is_infinite = isinstance(other, float) and not np.isfinite(other)
    return name in _NAN_TESTS or (name in _COMPARING and (is_infinite or other is args[0]))


def mark_truth(name: str, values: Tensor) -> NumpyArray:
    """Return whether truth values have been False, and True: a row for each column, or one."""
    if not values.numel():
        return np.zeros((1, 2), np.bool_)
    columns = values.shape[-1] if values.dim() > 1 and name in _COMPARING else 1
    rows = values.reshape(-1, columns if columns <= _MAX_COLUMNS else 1)
    with torch.no_grad():
        return np.stack([(~rows.all(0)).cpu().numpy(), rows.any(0).cpu().numpy()], -1)
