"""The search for the first module that an engine gets wrong.

Every module's result is measured twice: through the engine from the model's input, which says where
it goes wrong, and alone with PyTorch's own tensors, which tells the culprit from its victims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import msgspec

from enginebay.authors import OutputComparison
from enginebay.errors import ChildTimeoutError, EnginebayError, UsageError
from enginebay_lab.diagnosis.bisection import Place
from enginebay_lab.diagnosis.calls import Key, record_calls
from enginebay_lab.diagnosis.pieces import Piece, SideBySide, ancestors
from enginebay_lab.diagnosis.taps import Tap, Tapped

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn

    from enginebay.authors import Call

#: Tensors that one engine returns at a time, and their bytes: all are in memory together, with the
#: reference's.
_WINDOW = 64
_WINDOW_BYTES = 256 * 2**20

#: Modules that one engine measures alone, besides those around the first wrong one.
_ALONE = 8

#: Rounds of so many modules, after which the culprit is sought no further.
_ROUNDS = 3

#: Windows that no engine can be built of, after which the scan goes on without what is left.
_UNBUILT = 12

#: What fills windows.
One = TypeVar("One")


class Judgement(NamedTuple):
    """The outputs of an engine beside the reference's.

    Attributes:
        outputs: Each output's comparison, by name.
        crashed: How the engine's process ended; empty where it did not.
        rewriters: Names of the rewriters that fired.
        folder: The engine's files, with its IR and the recorded samples.
        doubt: Why agreement or a difference proves nothing, if so.
    """

    outputs: dict[str, OutputComparison]
    crashed: str
    rewriters: tuple[str, ...]
    folder: Path
    doubt: str = ""


#: Builds an engine of a module of flat tensors, given those and the outputs' names.
Judge: TypeAlias = Callable[["nn.Module", "Sequence[Tensor]", "Sequence[str]"], Judgement]


class Subject(NamedTuple):
    """The model that is bisected.

    Attributes:
        model: The model.
        call: How it is called.
        tensors: The inputs.
        shapes: The shape of each tap that the exported model has too, in the order in which calls
            end; the model's own result comes last.
    """

    model: nn.Module
    call: Call
    tensors: Sequence[Tensor]
    shapes: dict[Tap, tuple[int, ...]]

    def leaves(self, key: Key) -> tuple[int, ...]:
        """The tensors of a call's result that are compared."""
        return tuple(tap.leaf for tap in self.shapes if (tap.module, tap.call) == key)

    def piece(self, key: Key) -> Piece:
        """The model itself as a piece."""
        return Piece(*key, self.model, self.call, tuple(self.tensors), self.leaves(key))


class Culprit(NamedTuple):
    """The first module that is wrong by itself.

    Attributes:
        piece: The call of it.
        accumulated: Its worst tensor through the engine from the input, or the first wrong one of
            its own modules; None where neither was measured.
        alone: Its worst tensor alone; None where it is the model itself, or no engine takes it.
    """

    piece: Piece
    accumulated: OutputComparison | None
    alone: OutputComparison | None


class ModuleSearch:
    """Searches for the culprit among a model's modules.

    Args:
        subject: The model.
        judge: Builds an engine and compares it.
        progress: Called with what is being done.

    Attributes:
        places: What was compared, in the order in which the calls end.
    """

    def __init__(self, subject: Subject, judge: Judge, progress: Callable[[str], None]) -> None:
        self._subject = subject
        self._judge = judge
        self._progress = progress
        self._unbuilt = 0
        self._accumulated: dict[Key, OutputComparison] = {}
        self._alone: dict[Key, OutputComparison] = {}
        self._pieces: dict[Key, Piece] = {}

    def culprit(self) -> Culprit:
        """Find the first module, in the order in which calls end, that is wrong alone.

        A module's own modules end before it, so it is the innermost one. Where none is, it is the
        model itself: something between its modules, or modules that are wrong only together. One
        that no engine takes alone is the culprit where a module in it is wrong and right alone.
        """
        self._scan()
        if not self._wrong():
            self._truncate()
        for keys in self._rounds():
            self._measure_alone(keys)
            suspect = self._suspect()
            for key in self._order():
                known = self._alone.get(key)
                if (known is not None and not known.passed) or key == suspect:
                    return Culprit(self._pieces[key], self._first(key), known)
        root: Key = ("", 0)
        return Culprit(self._subject.piece(root), self._first(root), None)

    def _suspect(self) -> Key | None:
        """The innermost module around the first wrong one that is not right alone, as far as known.

        No engine may take it alone; then it is the one that is left.
        """
        first = next(key for key in self._order() if key in self._wrong())
        around = {first[0], *ancestors(first[0])}
        return next(
            (
                key
                for key in self._order()
                if key[0] in around
                and key in self._pieces
                and not (key in self._alone and self._alone[key].passed)
            ),
            None,
        )

    def _first(self, key: Key) -> OutputComparison | None:
        """The comparison at a call, or where it was not measured at the first wrong one in it."""
        wrong = (each for each in self._order() if each in self._wrong())
        return self._accumulated.get(key) or self._accumulated.get(next(wrong, key))

    @property
    def places(self) -> tuple[Place, ...]:
        """The calls that were compared."""
        return tuple(
            Place(
                module=key[0],
                call=key[1],
                accumulated=_error(through := self._accumulated.get(key)),
                alone=_error(alone := self._alone.get(key)),
                wrong=through is not None and not through.passed,
                wrong_alone=None if alone is None else not alone.passed,
            )
            for key in self._order()
            if key in self._accumulated or key in self._alone
        )

    # -- through the engine from the input ----------------------------------------------------

    def _scan(self) -> None:
        """Measure windows of taps, each with one engine, up to the first that is wrong."""
        sizes = {tap: 4 * prod(shape) for tap, shape in self._subject.shapes.items()}
        for window in windows(sizes, _WINDOW):
            self._measure(window)
            if self._wrong():
                return

    def _truncate(self) -> None:
        """Find the first wrong tap by halving, with an engine that ends at each.

        For what the scan cannot see: an engine that must return a tensor does not fuse the nodes on
        its two sides.
        """
        taps = list(self._subject.shapes)
        low, high = -1, len(taps) - 1
        self._accumulated.clear()
        while high - low > 1:
            middle = (low + high) // 2
            self._measure([taps[middle]])
            if self._is_wrong(taps[middle]):
                high = middle
            else:
                low = middle
        if not self._is_wrong(taps[high]):
            self._measure([taps[high]])

    def _measure(self, taps: Sequence[Tap]) -> None:
        """Measure taps with one engine, or with several where no engine takes all of them."""
        self._progress(f"{taps[0].module or 'the model'} … {taps[-1].module or 'the model'}")
        names = [f"tap_{number}" for number in range(len(taps))]
        tapped = Tapped(self._subject.model, self._subject.call, taps)
        judgement = self._judged(tapped, self._subject.tensors, names)
        if judgement is None:
            self._unbuilt += 1
            half = len(taps) // 2
            if half and self._unbuilt <= _UNBUILT:
                self._measure(taps[:half])
                self._measure(taps[half:])
            return
        for name, tap in zip(names, taps, strict=True):
            _keep_worst(self._accumulated, (tap.module, tap.call), judgement.outputs[name])

    def _judged(
        self, module: nn.Module, tensors: Sequence[Tensor], names: Sequence[str]
    ) -> Judgement | None:
        """Judge an engine; None where it cannot be built, or does not survive with many outputs."""
        try:
            judgement = self._judge(module, tensors, names)
        except UsageError:
            raise
        except ChildTimeoutError:
            return None
        except EnginebayError:
            return None
        if judgement.crashed and len(names) == 1:
            crash = OutputComparison(name=names[0], passed=False, reason=judgement.crashed)
            return judgement._replace(outputs={names[0]: crash})
        return None if judgement.crashed else judgement

    # -- alone ------------------------------------------------------------------------------------

    def _rounds(self) -> Iterator[list[Key]]:
        """The calls to measure alone: the first wrong one, those around it, and the next ones."""
        wrong = [key for key in self._order() if key in self._wrong() and key[0]]
        if not wrong:
            return
        around = set(ancestors(wrong[0][0]))
        for number in range(_ROUNDS):
            keys = wrong[number * _ALONE : (number + 1) * _ALONE]
            if number == 0:
                keys += [key for key in self._order() if key[0] in around and key not in keys]
            if keys:
                yield keys

    def _measure_alone(self, keys: Sequence[Key]) -> None:
        self._progress(f"alone: {', '.join(path for path, _ in keys)}")
        subject = self._subject
        calls = record_calls(subject.model, subject.call, subject.tensors, keys)
        pieces = [
            Piece(*key, one.module, one.call, one.given, subject.leaves(key))
            for key, one in calls.items()
            if one.call and one.given
        ]
        self._pieces.update({(piece.path, piece.number): piece for piece in pieces})
        if pieces and not self._measure_pieces(pieces) and len(pieces) > 1:
            for piece in pieces:
                self._measure_pieces([piece])

    def _measure_pieces(self, pieces: Sequence[Piece]) -> bool:
        """Measure pieces with one engine; False where none can be built of them."""
        together = SideBySide(pieces)
        judgement = self._judged(together, together.tensors, together.names)
        if judgement is None:
            return False
        keys = [(piece.path, piece.number) for piece in pieces for _ in piece.leaves]
        for name, key in zip(together.names, keys, strict=True):
            _keep_worst(self._alone, key, judgement.outputs[name])
        return True

    # -- what is known ----------------------------------------------------------------------------

    def _order(self) -> list[Key]:
        return list(dict.fromkeys((tap.module, tap.call) for tap in self._subject.shapes))

    def _wrong(self) -> set[Key]:
        return {key for key, found in self._accumulated.items() if not found.passed}

    def _is_wrong(self, tap: Tap) -> bool:
        return (tap.module, tap.call) in self._wrong()


def windows(sizes: Mapping[One, int], count: int) -> Iterator[list[One]]:
    """Cut what one engine returns into windows; what is larger than one has one of its own.

    Args:
        sizes: The bytes of each.
        count: How many are in a window, at most.
    """
    window: list[One] = []
    used = 0
    for one, size in sizes.items():
        if window and (len(window) == count or used + size > _WINDOW_BYTES):
            yield window
            window, used = [], 0
        window.append(one)
        used += size
    if window:
        yield window


def _keep_worst(found: dict[Key, OutputComparison], key: Key, comparison: OutputComparison) -> None:
    known = found.get(key)
    if known is None or comparison.badness > known.badness:
        found[key] = msgspec.structs.replace(comparison, name=key[0])


def _error(comparison: OutputComparison | None) -> float | None:
    return None if comparison is None else comparison.max_abs_error
