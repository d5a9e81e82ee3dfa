"""Recording of the decisions that the operators of a forward pass take.

A decision is a discrete value that was computed from floats: an index, a condition, a row of a
table that it reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import torch

from enginebay.state.taken_sides import (
    CONDITIONS,
    MAX_KINDS,
    MAX_PICKED,
    SELECTING,
    STEPS,
    TakenSides,
    mark_indices,
    mark_truth,
    read_dim,
    tests_for_nan,
)
from enginebay.state.tensor_sources import flatten

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from torch import Tensor

    from enginebay.state.tensor_sources import Sources, TensorSources
    from enginebay.tensors import NumpyArray

#: Operators that read entries of their first argument at indices, and those that look up.
_READING = frozenset(("gather", "index", "index_select"))
_LOOKING_UP = _READING | {"embedding", "scatter"}

#: The largest number of classes of which an output's index is one.
_MAX_CLASSES = 1024


class DecisionRecorder:
    """Records which sides of its decisions a forward takes.

    Args:
        sources: The tensors that depend on the inputs; what follows from a decision is marked.
        find_place: Returns the line of the model that runs.
        kept: Keys of decisions whose operands are kept.

    Attributes:
        decisions: Key of a decision (its place, operator and call) → which sides were taken.
        operands: Key of a decision in ``kept`` → name and arguments of its operator.
    """

    def __init__(
        self, sources: TensorSources, find_place: Callable[[], str], kept: Collection[str]
    ) -> None:
        self.decisions: dict[str, TakenSides] = {}
        self.operands: dict[str, tuple[str, Sequence[Any], Mapping[str, Any]]] = {}
        self._sources = sources
        self._find_place = find_place
        self._kept = kept
        self._calls: dict[str, int] = {}

    def follow_choices(
        self,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        leaves: Sequence[object],
        sources: Sources,
    ) -> None:
        """Record the decision that an operator takes, and mark what it returns as chosen."""
        if sources.chosen and name not in _LOOKING_UP and any(map(is_float_tensor, leaves)):
            self._use(sources.chosen, MAX_KINDS, MAX_PICKED)
        if name in STEPS:
            self.add(name, args, kwargs, "condition", mark_truth(name, args[0] > 0))
        discrete = [leaf for leaf in leaves if _is_dense(leaf) and not is_float_tensor(leaf)]
        if not discrete:
            return
        # What a computed index reads is chosen only if it is read from a table.
        read = args[:1] if name in _READING and self._sources.find(args[:1]).all else ()
        chosen = self._sources.find(read or flatten(args)).chosen
        if self._sources.find(x for x in flatten(args) if is_float_tensor(x)).all:
            chosen |= {""}
        if chosen:
            chosen = self._note_decision(name, args, kwargs, discrete[0], chosen)
            self._sources.mark(discrete, sources._replace(chosen=chosen))

    def _note_decision(
        self,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        result: Tensor,
        chosen: frozenset[str],
    ) -> frozenset[str]:
        """Record the sides that an operator took; return the keys of the result's decisions."""
        parents = chosen - {""}
        if name in SELECTING and is_float_tensor(args[0]):
            dim = read_dim(name, args, kwargs)
            if dim is not None and args[0].dim():
                indices = mark_indices(result, args[0].shape[dim])
                key = self.add(name, args, kwargs, "choice", indices, used=False)
                self._sides(*key).picked = result.shape[dim] if name == "topk" else 1
                return key
        elif name == "torchvision::nms":
            suppressed = np.array([True, len(result) < len(args[0])])
            return self.add(name, args, kwargs, "suppression", suppressed)
        elif tests_for_nan(name, args):
            return frozenset()
        elif result.dtype == torch.bool and name in CONDITIONS:
            if choices := [key for key in parents if self._sides(key).kind == "choice"]:
                self._use(choices, None if name in ("eq", "ne") else MAX_KINDS)
                return chosen
            taken = mark_truth(name, result)
            return self.add(name, args, kwargs, "condition", taken, parents=parents)
        return chosen

    def note_look_up(
        self, name: str, args: Sequence[Any], indices: Tensor, size: int, chosen: frozenset[str]
    ) -> None:
        """Record the rows that a computed index reads, and that the index's choice matters."""
        is_table = self._sources.is_stored(args[0])
        # one_hot scatters a single index into each row.
        is_one_hot = name == "scatter" and indices.dim() and indices.shape[args[1]] == 1
        limit = None if is_table or is_one_hot else MAX_KINDS
        keys = chosen - {""}
        self._use(keys, limit, MAX_PICKED if name in _READING and not is_table else None)
        if (limit is None or size <= limit) and all(
            self._sides(key).taken.size != size for key in keys
        ):
            kind = "row" if is_table else "choice"
            self.add(name, args, {}, kind, mark_indices(indices, size), parents=keys)

    def add(
        self,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        kind: str,
        taken: NumpyArray,
        *,
        parents: frozenset[str] = frozenset(),
        used: bool = True,
    ) -> frozenset[str]:
        """Record the sides that an operator took; return the key of its decision."""
        place = self._find_place()
        call = self._calls[f"{place} {name}"] = self._calls.get(f"{place} {name}", -1) + 1
        key = f"{place} {name} {call}"
        self.decisions[key] = TakenSides(place, kind, taken, parents, used)
        if key in self._kept:
            self.operands[key] = name, args, kwargs
        return frozenset((key,))

    def _sides(self, key: str) -> TakenSides:
        return self.decisions[key]

    def _use(self, keys: Iterable[str], limit: int | None, picked: int | None = None) -> None:
        """Note that choices matter, unless they have more entries, or pick more, than allowed."""
        for sides in (self._sides(key) for key in keys if key):
            is_small = limit is None or sides.taken.size <= limit
            sides.used |= is_small and (picked is None or sides.picked <= picked)

    def note_outputs(self, outputs: Mapping[str, Tensor]) -> None:
        """Note which decisions are the model's outputs."""
        for name, tensor in outputs.items():
            chosen = self._sources.find([tensor]).chosen
            self._use(chosen, _MAX_CLASSES)
            for key in chosen:
                # Values that are computed from floats without a decision, as by rounding.
                rounded = TakenSides("", "value", np.ones(1, np.bool_), used=False)
                self.decisions.setdefault(key or f" output {name}", rounded).output = name


def _is_dense(value: object) -> TypeGuard[Tensor]:
    return isinstance(value, torch.Tensor) and value.layout == torch.strided and not value.is_nested


def is_float_tensor(value: object) -> bool:
    """Return True for a tensor of real or complex numbers."""
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
