"""A model cut at its modules: each call of one becomes a piece, without the calls inside of it.

Imported only where torch is about to be used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from enginebay.authors import compare_outputs, evaluation
from enginebay_lab.diagnosis.calls import record_calls
from enginebay_lab.diagnosis.pieces import InnerCall, InnerCalls, Piece
from enginebay_lab.diagnosis.redrawing import redrawn

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from torch import Tensor

    from enginebay_lab.diagnosis.calls import Key, ModuleCall
    from enginebay_lab.diagnosis.pieces import Result


class CutPiece(NamedTuple):
    """A piece, and inputs of its own.

    Attributes:
        piece: The piece.
        redrawn: Inputs within the ranges of its tensors; these tensors where it takes no others.
    """

    piece: Piece
    redrawn: tuple[Tensor, ...]


class Cutter:
    """Cuts a model at its modules.

    A module that cannot be called alone, or gives something else then, stays a part of the piece
    around it.

    Args:
        root: The model as a piece.
        whole: Paths of modules that are not cut: a rewriter replaces each as a whole.

    Attributes:
        sizes: The bytes of the tensors of each call that may be a piece, in the order in which the
            calls end: one comes before those around it.
    """

    def __init__(self, root: Piece, whole: Collection[str]) -> None:
        self._root = root
        calls = record_calls(root.module, root.call, root.own)
        self._inner: dict[Key, list[Key]] = {}
        for key, one in reversed(calls.items()):  # those around a call come before it
            if one.around is None or (one.around in self._inner and one.around[0] not in whole):
                self._inner[key] = []
        self.sizes = {key: one.size for key, one in calls.items() if key in self._inner}
        for key in self.sizes:
            if (around := calls[key].around) is not None:
                self._inner[around].append(key)
        self._uncut: set[Key] = set()

    def pieces(self, keys: Sequence[Key]) -> list[CutPiece]:
        """Cut out some calls.

        Args:
            keys: The calls, in order; those inside of them are among them, or came before.

        Returns:
            Their pieces, without those that compute nothing besides other pieces.
        """
        root = self._root
        wanted = {*keys, *(inner for key in keys for inner in self._cut_out(key))}
        calls = record_calls(root.module, root.call, root.own, wanted)
        found = []
        with torch.no_grad(), evaluation(root.module):
            for key in keys:
                cut = self._cut(calls, key)
                if cut is None:
                    self._uncut.add(key)
                elif cut.piece.leaves:
                    found.append(cut)
        return found

    @property
    def unlike_itself(self) -> Piece | None:
        """The model, if it cannot be run again, or gives something else then."""
        root = self._root
        return root if (root.path, root.number) in self._uncut else None

    def _cut_out(self, key: Key) -> Iterator[Key]:
        """The calls inside of one that are pieces of their own, in order."""
        for inner in self._inner[key]:
            if inner in self._uncut:
                yield from self._cut_out(inner)
            else:
                yield inner

    def _cut(self, calls: Mapping[Key, ModuleCall], key: Key) -> CutPiece | None:
        """A call without those inside of it, else with them; None where it is not itself alone."""
        one = calls[key]
        assert one.call is not None
        inside = [calls[each] for each in self._cut_out(key)]
        for cut_out in (inside, []) if inside else ([],):
            inner = InnerCalls(tuple(map(_inner_call, cut_out)))
            module = inner.shell(one.module)
            piece = Piece(*key, module, one.call, one.given, inner=inner, writes=True)
            given = [tensor.clone() for tensor in piece.tensors]
            results = _results(piece, given) if given else None
            if results is None or not _are_equal(one.returned, results):
                continue
            leaves = tuple(_computed(piece.tensors, given, results))
            writes = _have_changed(piece.tensors, given, results)
            piece = piece._replace(leaves=leaves, writes=writes)
            return CutPiece(piece, _redrawn(piece, [results[leaf].value for leaf in leaves]))
        return None


def _results(piece: Piece, tensors: Sequence[Tensor]) -> list[Result] | None:
    """What a piece gives; None where it does not run alone, or on these tensors."""
    try:
        return piece.run(tensors)
    except Exception:  # noqa: BLE001  # whatever a model's code raises
        return None


def _inner_call(one: ModuleCall) -> InnerCall:
    assert one.result is not None
    return InnerCall(one.module, one.result, one.returned)


def _are_equal(expected: Sequence[Tensor], results: Sequence[Result]) -> bool:
    """True if the last results are what a call returned in the model."""
    found = results[len(results) - len(expected) :]
    return len(expected) == len(found) and all(
        torch.equal(one, other.value)
        or all(output.passed for output in compare_outputs({"": one}, {"": other.value}))
        for one, other in zip(expected, found, strict=True)
    )


def _computed(
    tensors: Sequence[Tensor], given: Sequence[Tensor], results: Sequence[Result]
) -> Iterator[int]:
    """The results that are no inputs as they came, each tensor once."""
    seen: list[Tensor] = []
    for index, (tensor, value) in enumerate(results):
        is_input = any(
            tensor is copy and torch.equal(value, original)
            for copy, original in zip(given, tensors, strict=True)
        )
        is_known = any(tensor is other for other in seen)
        if value.numel() and not (is_input or is_known or value.is_complex()):
            seen.append(tensor)
            yield index


def _have_changed(
    tensors: Sequence[Tensor], given: Sequence[Tensor], results: Sequence[Result]
) -> bool:
    """True if a run has written into what it was given, or into what it had passed on."""
    pairs = [*zip(tensors, given, strict=True), *results]
    return not all(before is after or torch.equal(before, after) for before, after in pairs)


def _redrawn(piece: Piece, expected: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Inputs of its own; its tensors where it gives nothing, or other sizes, for those."""
    random = torch.Generator().manual_seed(0)
    drawn = tuple(redrawn(tensor, random) for tensor in piece.tensors)
    results = _results(piece, [tensor.clone() for tensor in drawn])
    if results is None:
        return piece.tensors
    found = [results[leaf].value for leaf in piece.leaves]
    same = [one.shape for one in expected] == [one.shape for one in found]
    return drawn if same and all(one.isfinite().any() for one in found) else piece.tensors
