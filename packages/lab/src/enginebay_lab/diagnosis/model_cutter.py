"""Cutting of a model into pieces: submodels that each run one call of a module.

Imported only when torch is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from enginebay.authors.arrays import compare_outputs
from enginebay.authors.sources import evaluation
from enginebay_lab.diagnosis.module_calls import record_calls
from enginebay_lab.diagnosis.pieces import InnerCall, InnerCalls, Piece
from enginebay_lab.diagnosis.random_values import draw_values

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from torch import Tensor

    from enginebay_lab.diagnosis.module_calls import Key, ModuleCall
    from enginebay_lab.diagnosis.pieces import ComputedTensor


class CutPiece(NamedTuple):
    """A piece (submodel that runs one call of a module), and random inputs for this piece.

    Attributes:
        piece: The piece.
        random_inputs: Tensors of random values within the ranges of ``piece.tensors``;
            ``piece.tensors`` itself if the piece cannot be compared on random values.
    """

    piece: Piece
    random_inputs: tuple[Tensor, ...]


class ModelCutter:
    """Cuts a model into pieces (submodels), one for each call of a module.

    A call that raises an exception or returns a different result when it runs outside the model
    stays a part of the caller's piece.

    Args:
        root: The whole model as one piece.
        uncut_modules: The paths of modules that a rewriter replaces as a whole: calls inside these
            modules do not become pieces.

    Attributes:
        sizes: The size in bytes of the arguments and the result of each call that may become a
            piece. The calls are in the order in which they end: calls inside a call end first.
    """

    def __init__(self, root: Piece, uncut_modules: Collection[str]) -> None:
        self._root = root
        # Without tensors: those of all calls together may not fit into memory.
        calls = record_calls(root.module, root.call, root.own_tensors)
        self._inner: dict[Key, list[Key]] = {}
        for key, call in reversed(calls.items()):  # reversed: callers before the calls inside them
            caller = call.caller
            if caller is None or (caller in self._inner and caller[0] not in uncut_modules):
                self._inner[key] = []
        self.sizes = {key: call.size for key, call in calls.items() if key in self._inner}
        for key in self.sizes:
            if (caller := calls[key].caller) is not None:
                self._inner[caller].append(key)
        self._uncut: set[Key] = set()  # calls that fail alone: they stay in their callers' pieces

    def cut_pieces(self, keys: Sequence[Key]) -> list[CutPiece]:
        """Cut module calls out of the model, and return them as pieces (submodels).

        Args:
            keys: The module calls, in the order of :attr:`sizes`. The calls inside them must be in
                this list too, unless ``cut_pieces`` has cut them out before.

        Returns:
            The pieces. A module call has no piece if it cannot run outside the model, or if it only
            returns tensors from its arguments or from calls inside it.
        """
        root = self._root
        needed = {*keys, *(inner for key in keys for inner in self._find_inner(key))}
        calls = record_calls(root.module, root.call, root.own_tensors, needed)
        pieces = []
        with torch.no_grad(), evaluation(root.module):
            for key in keys:
                cut = self._cut_call(calls, key)
                if cut is None:
                    self._uncut.add(key)
                elif cut.piece.leaves:
                    pieces.append(cut)
        return pieces

    @property
    def unrepeatable_model(self) -> Piece | None:
        """The whole model if a second run fails or returns a different result; otherwise None."""
        root = self._root
        return root if (root.path, root.number) in self._uncut else None

    def _find_inner(self, key: Key) -> Iterator[Key]:
        """Yield the outermost calls inside a call that may run as separate pieces (submodels)."""
        for inner in self._inner[key]:
            if inner in self._uncut:
                yield from self._find_inner(inner)
            else:
                yield inner

    def _cut_call(self, calls: Mapping[Key, ModuleCall], key: Key) -> CutPiece | None:
        """Return a piece (submodel) that runs a call; if possible, the piece runs no inner calls.

        Return None if the call raises an exception when it runs outside the model, or returns a
        different result than inside the model.
        """
        call = calls[key]
        assert call.call is not None
        inside = [calls[inner] for inner in self._find_inner(key)]
        # First without the inner calls; if this fails, with them.
        for cut_out in (inside, []) if inside else ([],):
            inner_calls = InnerCalls(tuple(map(_build_inner_call, cut_out)))
            module = inner_calls.strip_module(call.module)
            # `writes` is assumed until a run shows that the piece changes nothing in place.
            piece = Piece(*key, module, call.call, call.tensors, inner=inner_calls, writes=True)
            copies = [tensor.clone() for tensor in piece.tensors]
            results = _run_piece(piece, copies) if copies else None
            if results is None or not _are_equal(call.returned, results):
                continue
            # The result may consist of results of inner calls, so equality does not prove much.
            if cut_out and not _is_repeatable(piece, results):
                continue
            leaves = tuple(_select_computed(piece.tensors, copies, results))
            writes = _have_changed(piece.tensors, copies, results)
            piece = piece._replace(leaves=leaves, writes=writes)
            return CutPiece(piece, _draw_inputs(piece, [results[leaf].value for leaf in leaves]))
        return None


def _run_piece(piece: Piece, tensors: Sequence[Tensor]) -> list[ComputedTensor] | None:
    """Run a piece (submodel) on tensors; return the results, or None if it raises an exception."""
    try:
        return piece.run(tensors)
    except Exception:  # noqa: BLE001  # a model's code may raise any exception
        return None


def _is_repeatable(piece: Piece, results: Sequence[ComputedTensor]) -> bool:
    """Return True if a second run of a piece (submodel) returns the same results as the first."""
    repeated = _run_piece(piece, [tensor.clone() for tensor in piece.tensors])
    return repeated is not None and _are_equal([result.value for result in results], repeated)


def _build_inner_call(call: ModuleCall) -> InnerCall:
    assert call.result is not None
    return InnerCall(call.module, call.result, call.returned)


def _are_equal(expected: Sequence[Tensor], results: Sequence[ComputedTensor]) -> bool:
    """Return True if a module call returned the same tensors in a piece as in the whole model."""
    # Results before those are tensors that the piece passed to its inner calls.
    returned = results[len(results) - len(expected) :]
    return len(expected) == len(returned) and all(
        torch.equal(value, result.value)
        or all(output.passed for output in compare_outputs({"": value}, {"": result.value}))
        for value, result in zip(expected, returned, strict=True)
    )


def _select_computed(
    tensors: Sequence[Tensor], copies: Sequence[Tensor], results: Sequence[ComputedTensor]
) -> Iterator[int]:
    """Yield the index of each result that a piece (submodel) computed and that can be compared.

    Empty and complex tensors, unchanged inputs and repeated results are left out.
    """
    seen: list[Tensor] = []
    for index, (tensor, value) in enumerate(results):
        is_input = any(
            tensor is copy and torch.equal(value, original)
            for copy, original in zip(copies, tensors, strict=True)
        )
        is_known = any(tensor is other for other in seen)
        if value.numel() and not (is_input or is_known or value.is_complex()):
            seen.append(tensor)
            yield index


def _have_changed(
    tensors: Sequence[Tensor], copies: Sequence[Tensor], results: Sequence[ComputedTensor]
) -> bool:
    """Return True if a piece (submodel) changed one of its tensors in place.

    The tensors are the inputs of the piece, and the arguments of the submodule calls that the piece
    does not run.
    """
    pairs = [*zip(tensors, copies, strict=True), *results]
    return not all(before is after or torch.equal(before, after) for before, after in pairs)


def _draw_inputs(piece: Piece, expected: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return random inputs for a piece (submodel), or its original inputs if those do not work.

    Random inputs do not work if the piece raises an exception on them, if an output gets another
    shape, or if an output has no finite value.
    """
    generator = torch.Generator().manual_seed(0)  # fixed: a second run gets the same inputs
    drawn = tuple(draw_values(tensor, generator) for tensor in piece.tensors)
    results = _run_piece(piece, [tensor.clone() for tensor in drawn])
    if results is None:
        return piece.tensors
    values = [results[leaf].value for leaf in piece.leaves]
    has_same_shapes = [v.shape for v in expected] == [v.shape for v in values]
    is_finite = all(value.isfinite().any() for value in values)  # else there is nothing to compare
    return drawn if has_same_shapes and is_finite else piece.tensors
