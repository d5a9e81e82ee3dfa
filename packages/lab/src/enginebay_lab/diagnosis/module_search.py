"""The search for the culprit: the first module that an engine computes wrongly.

Every module's output is compared twice. Accumulated: the engine runs the model from its inputs, so
the first wrong output shows where the error appears. Alone: the engine runs only the module, on the
module's inputs in PyTorch. This separates the culprit from modules that received wrong inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import msgspec

from enginebay.authors.arrays import OutputComparison
from enginebay.errors import EnginebayError, UsageError
from enginebay_lab.diagnosis.bisection import Place
from enginebay_lab.diagnosis.intermediate_outputs import ModuleOutput, ModuleOutputsModel
from enginebay_lab.diagnosis.module_calls import Key, record_calls
from enginebay_lab.diagnosis.pieces import Piece, SideBySide, parent_paths

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn

    from enginebay.authors.sources import Call

#: Limits for the outputs of one engine: they are in memory together with the reference's outputs.
_GROUP_OUTPUTS = 64
_GROUP_BYTES = 256 * 2**20

#: The number of modules that one engine runs alone, besides the parents of the first wrong module.
_ALONE_MODULES = 8

#: The largest number of engines that run :data:`_ALONE_MODULES` modules alone.
_MAX_ROUNDS = 3

#: After this many failed builds, the outputs of a failed build are skipped instead of halved.
_MAX_BUILD_FAILURES = 12

_Item = TypeVar("_Item")


class EngineComparison(NamedTuple):
    """The comparison of an engine's outputs with the outputs of the reference.

    Attributes:
        outputs: The comparison of each output, by the output's name.
        crashed: How the engine's process crashed; empty if it did not crash.
        rewriters: The names of the rewriters that changed the engine's PyTorch module.
        folder: The folder of the engine's artifact, with the IR and the recorded samples.
        doubt: Why the comparison is not reliable, for example because the model returns different
            outputs in each run; empty if the comparison is reliable.
    """

    outputs: dict[str, OutputComparison]
    crashed: str
    rewriters: tuple[str, ...]
    folder: Path
    doubt: str = ""


#: A function that builds an engine of a module and compares its outputs. Arguments: the module,
#: which takes only tensors; its input tensors; the names of its outputs.
CompareModule: TypeAlias = Callable[
    ["nn.Module", "Sequence[Tensor]", "Sequence[str]"], EngineComparison
]


class SearchTarget(NamedTuple):
    """The model in which to search for the first wrong module, and the outputs to compare.

    Attributes:
        model: The PyTorch model to search.
        call: The model's arguments, with a placeholder for each tensor.
        tensors: The model's input tensors.
        shapes: The shape of each module output to compare, in the order in which the calls end;
            the outputs of the model itself are last.
    """

    model: nn.Module
    call: Call
    tensors: Sequence[Tensor]
    shapes: dict[ModuleOutput, tuple[int, ...]]

    def compared_leaves(self, key: Key) -> tuple[int, ...]:
        """Return the indices of the tensors to compare in a call's result."""
        return tuple(output.leaf for output in self.shapes if output.key == key)

    def as_piece(self, key: Key) -> Piece:
        """Return the whole model as a piece (submodel) with the path and call index in ``key``."""
        return Piece(*key, self.model, self.call, tuple(self.tensors), self.compared_leaves(key))


class Culprit(NamedTuple):
    """The module that causes the first wrong output of a model.

    Attributes:
        piece: The wrong call of the module, as a submodel.
        accumulated: The comparison of the call's worst output when the engine runs the model from
            its inputs. If the call was not compared, this is the comparison of the first wrong
            call; None if no call was wrong.
        alone: The comparison of the call's worst output when the engine runs only the module; None
            for the model itself, and if the module cannot be built as a separate engine.
    """

    piece: Piece
    accumulated: OutputComparison | None
    alone: OutputComparison | None


class ModuleSearch:
    """Searches a model for the first module that an engine computes wrongly.

    Args:
        target: The model to search, and the module outputs to compare.
        compare_module: Builds an engine of a module and compares its outputs with the reference.
        progress: Called with a short text about each step.
    """

    def __init__(
        self, target: SearchTarget, compare_module: CompareModule, progress: Callable[[str], None]
    ) -> None:
        self._target = target
        self._compare_module = compare_module
        self._progress = progress
        self._build_failures = 0
        self._accumulated: dict[Key, OutputComparison] = {}
        self._alone: dict[Key, OutputComparison] = {}
        self._pieces: dict[Key, Piece] = {}

    def find_culprit(self) -> Culprit:
        """Find the first call whose module is wrong when the engine runs only this module.

        The calls are searched in the order in which they end. A call inside another call ends
        first, so the result is the innermost wrong module. If every module is right when it runs
        alone, the result is the model itself: the code between the modules is wrong, or modules are
        wrong only if one engine runs all of them.

        Some modules cannot be built as separate engines. Such a module is the result if it computes
        the first wrong output, and the modules inside it that help to compute this output are right
        when they run alone.
        """
        self._scan_outputs()
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
        """Return the innermost call that may be the cause of the first wrong output.

        The candidates are the calls of the first wrong module and of the modules that contain it. A
        candidate is left out if its module was right when an engine ran only this module; it stays
        if no engine can run only this module. Return None if no candidate is left.
        """
        order = self._call_order()
        first = next(index for index, key in enumerate(order) if key in self._wrong_calls())
        around = {order[first][0], *parent_paths(order[first][0])}
        return next(
            (
                key
                for key in order[first:]  # earlier calls of these modules were right
                if key[0] in around
                and key in self._pieces
                and not (key in self._alone and self._alone[key].passed)
            ),
            None,
        )

    def _first_comparison(self, key: Key) -> OutputComparison | None:
        """Return the accumulated comparison of a call or, if missing, of the first wrong call.

        Accumulated: the engine ran the model from its inputs up to the call.
        """
        wrong = (other for other in self._call_order() if other in self._wrong_calls())
        return self._accumulated.get(key) or self._accumulated.get(next(wrong, key))

    @property
    def places(self) -> tuple[Place, ...]:
        """The comparisons of all measured calls, in the order in which the calls end."""
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

    def _scan_outputs(self) -> None:
        """Compare the modules' outputs with PyTorch's, group by group, and store the comparisons.

        One engine is built for each group. The scan stops at the first group with a wrong output.
        """
        # 4 bytes for each element: half precision counts as float32.
        sizes = {output: 4 * prod(shape) for output, shape in self._target.shapes.items()}
        for group in group_by_size(sizes, _GROUP_OUTPUTS):
            self._measure_outputs(group)
            if self._wrong_calls():
                return

    def _bisect_outputs(self) -> None:
        """Find the first wrong output by binary search, and store each comparison.

        Each engine returns a single output.
        """
        # The scan misses errors of fused nodes: an engine that must return the tensor between two
        # nodes does not fuse them.
        outputs = list(self._target.shapes)
        if not outputs:
            return
        low, high = -1, len(outputs) - 1
        self._accumulated.clear()  # comparisons of engines with fewer fusions
        while high - low > 1:  # outputs[low] is right, outputs[high] is wrong
            middle = (low + high) // 2
            self._measure_outputs([outputs[middle]])
            if outputs[middle].key in self._wrong_calls():
                high = middle
            else:
                low = middle
        if outputs[high].key not in self._wrong_calls():  # the last output is not measured above
            self._measure_outputs([outputs[high]])

    def _measure_outputs(self, outputs: Sequence[ModuleOutput]) -> None:
        """Build an engine that returns ``outputs``, and store their comparisons with the reference.

        If the build fails or the engine crashes, try again with each half of the outputs,
        unless many builds have failed already.
        """
        first, last = (output.module or "the model" for output in (outputs[0], outputs[-1]))
        self._progress(f"{first} … {last}")
        names = [f"output_{number}" for number in range(len(outputs))]
        model = ModuleOutputsModel(self._target.model, self._target.call, outputs)
        comparison = self._try_compare(model, self._target.tensors, names)
        if comparison is None:
            self._build_failures += 1
            half = len(outputs) // 2
            if half and self._build_failures <= _MAX_BUILD_FAILURES:
                self._measure_outputs(outputs[:half])
                self._measure_outputs(outputs[half:])
            return
        for name, output in zip(names, outputs, strict=True):
            _store_worst(self._accumulated, output.key, comparison.outputs[name])

    def _try_compare(
        self, module: nn.Module, tensors: Sequence[Tensor], names: Sequence[str]
    ) -> EngineComparison | None:
        """Build an engine, run it, and return the comparison of its outputs.

        Return None if the build fails, the engine crashes, or PyTorch returns different outputs in
        each run. If the engine has a single output and crashes, return a failed comparison of this
        output instead.
        """
        try:
            comparison = self._compare_module(module, tensors, names)
        except UsageError:  # the caller's mistake, which says nothing about the engine
            raise
        except EnginebayError:
            return None
        # A crash with one output is that output's result; with several, fewer outputs may work.
        if comparison.crashed and len(names) == 1:
            crash = OutputComparison(name=names[0], passed=False, reason=comparison.crashed)
            return comparison._replace(outputs={names[0]: crash})
        return None if comparison.crashed or comparison.doubt else comparison

    # -- alone ------------------------------------------------------------------------------------

    def _plan_rounds(self) -> Iterator[list[Key]]:
        """Yield lists of module calls that an engine is to run without the rest of the model.

        The first list contains the first wrong call.
        """
        # Without the model itself: as a whole, it is wrong alone in any case.
        wrong = [key for key in self._call_order() if key in self._wrong_calls() and key[0]]
        if not wrong:
            return
        around = set(parent_paths(wrong[0][0]))
        for number in range(_MAX_ROUNDS):
            keys = wrong[number * _ALONE_MODULES : (number + 1) * _ALONE_MODULES]
            if number == 0:  # the parents' code around the first wrong call may be wrong instead
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
        # If no engine can be built of all pieces, some of them may still be built one by one.
        if pieces and not self._measure_pieces(pieces) and len(pieces) > 1:
            for piece in pieces:
                self._measure_pieces([piece])

    def _measure_pieces(self, pieces: Sequence[Piece]) -> bool:
        """Build one engine of all pieces (submodels), and store the comparisons.

        Return False if the build fails or the engine crashes, otherwise True.
        """
        together = SideBySide(pieces)
        comparison = self._try_compare(together, together.tensors, together.names)
        if comparison is None:
            return False
        keys = [(piece.path, piece.number) for piece in pieces for _ in piece.leaves]
        for name, key in zip(together.names, keys, strict=True):
            _store_worst(self._alone, key, comparison.outputs[name])
        return True

    # -- state ------------------------------------------------------------------------------------

    def _call_order(self) -> list[Key]:
        return list(dict.fromkeys(output.key for output in self._target.shapes))

    def _wrong_calls(self) -> set[Key]:
        return {key for key, comparison in self._accumulated.items() if not comparison.passed}


def group_by_size(sizes: Mapping[_Item, int], count: int) -> Iterator[list[_Item]]:
    """Split items into consecutive groups of at most 256 MiB; a larger item gets a separate group.

    Args:
        sizes: The size of each item in bytes, in order.
        count: The largest number of items in a group.
    """
    group: list[_Item] = []
    used = 0
    for item, size in sizes.items():
        if group and (len(group) == count or used + size > _GROUP_BYTES):
            yield group
            group, used = [], 0
        group.append(item)
        used += size
    if group:
        yield group


def _store_worst(
    comparisons: dict[Key, OutputComparison], key: Key, comparison: OutputComparison
) -> None:
    stored = comparisons.get(key)
    if stored is None or comparison.badness > stored.badness:
        comparisons[key] = msgspec.structs.replace(comparison, name=key[0])


def max_error(comparison: OutputComparison | None) -> float | None:
    """Return the largest absolute error of a comparison; None if nothing was compared."""
    return None if comparison is None else comparison.max_abs_error
