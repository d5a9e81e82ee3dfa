"""The search for the first module that an engine computes wrongly.

Every module's output is compared twice. Accumulated: the engine runs the model from its input, so
the first wrong output shows where the error appears. Alone: the engine runs only the module, on
PyTorch's tensors, which separates the culprit from the modules that received wrong inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import msgspec

from enginebay.authors import OutputComparison
from enginebay.errors import EnginebayError, UsageError
from enginebay_lab.diagnosis.bisection import Place
from enginebay_lab.diagnosis.intermediate_outputs import ModuleOutput, ModuleOutputsModel
from enginebay_lab.diagnosis.module_calls import Key, record_calls
from enginebay_lab.diagnosis.pieces import Piece, SideBySide, parent_paths

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn

    from enginebay.authors import Call

#: The outputs of one engine, and their total size: all are in memory together with the reference's.
_WINDOW_OUTPUTS = 64
_WINDOW_BYTES = 256 * 2**20

#: The modules that one engine runs alone, in addition to the modules around the first wrong one.
_ALONE_MODULES = 8

#: Groups of this many modules that are measured alone before the search ends.
_MAX_ROUNDS = 3

#: Failed builds after which the scan continues without the outputs that no engine returns.
_MAX_BUILD_FAILURES = 12

_Item = TypeVar("_Item")


class Judgement(NamedTuple):
    """The comparison of an engine's outputs with the reference's.

    Attributes:
        outputs: Each output's comparison, by name.
        crashed: How the engine's process ended; empty if it did not crash.
        rewriters: The names of the rewriters that fired.
        folder: The engine's files, with its IR and the recorded samples.
        doubt: Why the comparison proves nothing, such as a random model; empty if it is sound.
    """

    outputs: dict[str, OutputComparison]
    crashed: str
    rewriters: tuple[str, ...]
    folder: Path
    doubt: str = ""


#: Builds an engine of a module, and compares it. Arguments: the module, whose inputs are flat
#: tensors; these tensors; the names of its outputs.
Judge: TypeAlias = Callable[["nn.Module", "Sequence[Tensor]", "Sequence[str]"], Judgement]


class SearchTarget(NamedTuple):
    """The model whose modules are searched.

    Attributes:
        model: The model.
        call: The model's arguments, with slots for the tensors.
        tensors: The inputs.
        shapes: The shape of each module output that the exported model has too, in the order in
            which calls end; the model's own output is last.
    """

    model: nn.Module
    call: Call
    tensors: Sequence[Tensor]
    shapes: dict[ModuleOutput, tuple[int, ...]]

    def compared_leaves(self, key: Key) -> tuple[int, ...]:
        """Return the indices of those tensors in a call's result that are compared."""
        return tuple(output.leaf for output in self.shapes if output.key == key)

    def as_piece(self, key: Key) -> Piece:
        """Return the whole model as a piece."""
        return Piece(*key, self.model, self.call, tuple(self.tensors), self.compared_leaves(key))


class Culprit(NamedTuple):
    """The first module that is wrong by itself.

    Attributes:
        piece: The module's call.
        accumulated: The comparison of its worst tensor, accumulated from the model's input, or of
            the first wrong tensor in it; None if neither was measured.
        alone: The comparison of its worst tensor alone; None for the model itself, and if no
            engine can be built of the module alone.
    """

    piece: Piece
    accumulated: OutputComparison | None
    alone: OutputComparison | None


class ModuleSearch:
    """Searches a model's modules for the culprit.

    Args:
        target: The model.
        judge: Builds an engine and compares it.
        progress: Called with a short text about each step.

    Attributes:
        places: The compared calls, in the order in which they end.
    """

    def __init__(self, target: SearchTarget, judge: Judge, progress: Callable[[str], None]) -> None:
        self._target = target
        self._judge = judge
        self._progress = progress
        self._build_failures = 0
        self._accumulated: dict[Key, OutputComparison] = {}
        self._alone: dict[Key, OutputComparison] = {}
        self._pieces: dict[Key, Piece] = {}

    def find_culprit(self) -> Culprit:
        """Find the first module, in the order in which calls end, that is wrong alone.

        Inner modules end first, so this is the innermost one. If no module is wrong alone, the
        culprit is the model itself: code between its modules, or modules that are wrong only
        together. A module of which no engine can be built alone is the culprit if a module in it
        is wrong, but right alone.
        """
        self._scan_windows()
        if not self._wrong_calls():
            self._bisect_outputs()
        for keys in self._plan_rounds():
            self._measure_alone(keys)
            suspect = self._find_suspect()
            for key in self._call_order():
                alone = self._alone.get(key)
                if (alone is not None and not alone.passed) or key == suspect:
                    return Culprit(self._pieces[key], self._first_comparison(key), alone)
        root: Key = ("", 0)
        return Culprit(self._target.as_piece(root), self._first_comparison(root), None)

    def _find_suspect(self) -> Key | None:
        """Find the innermost module around the first wrong call that may be wrong alone.

        If no engine can be built of that module alone, elimination makes it the culprit.
        """
        first = next(key for key in self._call_order() if key in self._wrong_calls())
        around = {first[0], *parent_paths(first[0])}
        return next(
            (
                key
                for key in self._call_order()
                if key[0] in around
                and key in self._pieces
                and not (key in self._alone and self._alone[key].passed)
            ),
            None,
        )

    def _first_comparison(self, key: Key) -> OutputComparison | None:
        """Return a call's comparison, or that of the first wrong call if it was not measured."""
        wrong = (other for other in self._call_order() if other in self._wrong_calls())
        return self._accumulated.get(key) or self._accumulated.get(next(wrong, key))

    @property
    def places(self) -> tuple[Place, ...]:
        """The compared calls, in the order in which they end."""
        return tuple(
            Place(
                module=key[0],
                call=key[1],
                accumulated=max_error(through := self._accumulated.get(key)),
                alone=max_error(alone := self._alone.get(key)),
                wrong=through is not None and not through.passed,
                wrong_alone=None if alone is None else not alone.passed,
            )
            for key in self._call_order()
            if key in self._accumulated or key in self._alone
        )

    # -- accumulated from the model's input --------------------------------------------------------

    def _scan_windows(self) -> None:
        """Compare windows of outputs, one engine for each, until an output is wrong."""
        # 4 bytes for each element: half precision counts as float32.
        sizes = {output: 4 * prod(shape) for output, shape in self._target.shapes.items()}
        for window in split_windows(sizes, _WINDOW_OUTPUTS):
            self._measure_outputs(window)
            if self._wrong_calls():
                return

    def _bisect_outputs(self) -> None:
        """Find the first wrong output by bisection, with an engine that ends at each output."""
        # The scan misses errors of fused nodes: an engine that must return the tensor between two
        # nodes does not fuse them.
        outputs = list(self._target.shapes)
        low, high = -1, len(outputs) - 1
        self._accumulated.clear()  # comparisons of engines with fewer fusions
        while high - low > 1:
            middle = (low + high) // 2
            self._measure_outputs([outputs[middle]])
            if outputs[middle].key in self._wrong_calls():
                high = middle
            else:
                low = middle
        if outputs[high].key not in self._wrong_calls():
            self._measure_outputs([outputs[high]])

    def _measure_outputs(self, outputs: Sequence[ModuleOutput]) -> None:
        """Compare outputs with one engine, or with several if no engine returns all of them."""
        first, last = (output.module or "the model" for output in (outputs[0], outputs[-1]))
        self._progress(f"{first} … {last}")
        names = [f"output_{number}" for number in range(len(outputs))]
        model = ModuleOutputsModel(self._target.model, self._target.call, outputs)
        judgement = self._try_judge(model, self._target.tensors, names)
        if judgement is None:
            self._build_failures += 1
            half = len(outputs) // 2
            if half and self._build_failures <= _MAX_BUILD_FAILURES:
                self._measure_outputs(outputs[:half])
                self._measure_outputs(outputs[half:])
            return
        for name, output in zip(names, outputs, strict=True):
            _store_worst(self._accumulated, output.key, judgement.outputs[name])

    def _try_judge(
        self, module: nn.Module, tensors: Sequence[Tensor], names: Sequence[str]
    ) -> Judgement | None:
        """Judge an engine, and return None if it cannot be built, or crashes with many outputs."""
        try:
            judgement = self._judge(module, tensors, names)
        except UsageError:  # wrong arguments of the caller are not a result
            raise
        except EnginebayError:
            return None
        # A crash with one output is that output's result; with several, fewer outputs may work.
        if judgement.crashed and len(names) == 1:
            crash = OutputComparison(name=names[0], passed=False, reason=judgement.crashed)
            return judgement._replace(outputs={names[0]: crash})
        return None if judgement.crashed else judgement

    # -- alone ------------------------------------------------------------------------------------

    def _plan_rounds(self) -> Iterator[list[Key]]:
        """Yield groups of calls to measure alone, beginning with the first wrong call."""
        wrong = [key for key in self._call_order() if key in self._wrong_calls() and key[0]]
        if not wrong:
            return
        around = set(parent_paths(wrong[0][0]))
        for number in range(_MAX_ROUNDS):
            keys = wrong[number * _ALONE_MODULES : (number + 1) * _ALONE_MODULES]
            if number == 0:
                keys += [key for key in self._call_order() if key[0] in around and key not in keys]
            if keys:
                yield keys

    def _measure_alone(self, keys: Sequence[Key]) -> None:
        self._progress(f"alone: {', '.join(path for path, _ in keys)}")
        target = self._target
        calls = record_calls(target.model, target.call, target.tensors, keys)
        pieces = [
            Piece(*key, call.module, call.call, call.tensors, target.compared_leaves(key))
            for key, call in calls.items()
            if call.call and call.tensors
        ]
        self._pieces.update({(piece.path, piece.number): piece for piece in pieces})
        if pieces and not self._measure_pieces(pieces) and len(pieces) > 1:
            for piece in pieces:
                self._measure_pieces([piece])

    def _measure_pieces(self, pieces: Sequence[Piece]) -> bool:
        """Compare pieces with one engine, and return False if none can be built of them."""
        together = SideBySide(pieces)
        judgement = self._try_judge(together, together.tensors, together.names)
        if judgement is None:
            return False
        keys = [(piece.path, piece.number) for piece in pieces for _ in piece.leaves]
        for name, key in zip(together.names, keys, strict=True):
            _store_worst(self._alone, key, judgement.outputs[name])
        return True

    # -- state ------------------------------------------------------------------------------------

    def _call_order(self) -> list[Key]:
        return list(dict.fromkeys(output.key for output in self._target.shapes))

    def _wrong_calls(self) -> set[Key]:
        return {key for key, comparison in self._accumulated.items() if not comparison.passed}


def split_windows(sizes: Mapping[_Item, int], count: int) -> Iterator[list[_Item]]:
    """Split items into windows of limited size; an item above the limit gets its own window.

    Args:
        sizes: The size of each item in bytes.
        count: The largest number of items in a window.
    """
    window: list[_Item] = []
    used = 0
    for item, size in sizes.items():
        if window and (len(window) == count or used + size > _WINDOW_BYTES):
            yield window
            window, used = [], 0
        window.append(item)
        used += size
    if window:
        yield window


def _store_worst(
    comparisons: dict[Key, OutputComparison], key: Key, comparison: OutputComparison
) -> None:
    stored = comparisons.get(key)
    if stored is None or comparison.badness > stored.badness:
        comparisons[key] = msgspec.structs.replace(comparison, name=key[0])


def max_error(comparison: OutputComparison | None) -> float | None:
    """Return a comparison's largest absolute error; None if there is no comparison."""
    return None if comparison is None else comparison.max_abs_error
