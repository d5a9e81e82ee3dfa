"""The pieces of a model, measured: as many as possible by each engine.

Imported only where torch is about to be used.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from enginebay.errors import EnginebayError, first_line
from enginebay_lab.diagnosis.bisect_nodes import kept_graph
from enginebay_lab.diagnosis.cuts import Cutter
from enginebay_lab.diagnosis.piece_rows import PieceRow
from enginebay_lab.diagnosis.pieces import SideBySide
from enginebay_lab.diagnosis.search import windows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from enginebay_lab.diagnosis.cuts import CutPiece
    from enginebay_lab.diagnosis.piece_engines import PieceEngines
    from enginebay_lab.diagnosis.piece_rows import PieceVerdict
    from enginebay_lab.diagnosis.pieces import Piece
    from enginebay_lab.diagnosis.search import Judgement

#: Pieces that one engine measures, at most: an engine costs a start of two processes.
_TOGETHER = 512

#: Engines that cannot be built, after which groups of pieces are not halved any more.
_UNBUILT = 24


class _Measured(NamedTuple):
    """A row, and what sorts it: the largest is the worst."""

    row: PieceRow
    badness: tuple[bool, float, float]


class PieceTable:
    """Compares the pieces of a model.

    Args:
        root: The model as a piece.
        engines: Builds engines.
    """

    def __init__(self, root: Piece, engines: PieceEngines) -> None:
        self._engines = engines
        self._cutter = Cutter(root, engines.replaced(root.module))
        self._unbuilt = 0

    def rows(self, progress: Callable[[str], None]) -> tuple[PieceRow, ...]:
        """Measure every piece.

        Args:
            progress: Called with what is being done.

        Returns:
            A row for each, the worst first.
        """
        found: list[_Measured] = []
        for keys in windows(self._cutter.sizes, _TOGETHER):
            progress(f"{keys[0][0] or 'the model'} … {keys[-1][0] or 'the model'}")
            if cut := self._cutter.pieces(keys):
                found += self._measured(cut)
        if root := self._cutter.unlike_itself:
            found.append(_unmeasured(root, "failed", "the model gives other values in each run"))
        found.sort(key=lambda one: one.badness, reverse=True)
        return tuple(one.row for one in found)

    def _measured(self, cut: Sequence[CutPiece]) -> list[_Measured]:
        """Measure pieces with one engine, or with several where none takes all of them."""
        together = SideBySide([one.piece for one in cut])
        verdict: PieceVerdict = "failed"
        item = [tensor for one in cut for tensor in one.redrawn]
        try:
            judgement = self._engines.judge(
                together, together.tensors, together.names, items=[item]
            )
        except EnginebayError as err:
            failure = first_line(err)
        else:
            if not judgement.crashed:
                return _compared(cut, together, judgement)
            verdict, failure = "crashed", judgement.crashed
        half = len(cut) // 2
        if half and self._unbuilt < _UNBUILT:
            self._unbuilt += 1
            return [*self._measured(cut[:half]), *self._measured(cut[half:])]
        return [_unmeasured(one.piece, verdict, failure) for one in cut]


def _compared(
    cut: Sequence[CutPiece], together: SideBySide, judgement: Judgement
) -> list[_Measured]:
    operators = _operators(together, judgement.folder)
    found = []
    for index, (piece, redrawn) in enumerate(cut):
        outputs = [judgement.outputs[name] for name in together.names_of(index)]
        # A rewriter may give what a module passes on another type or shape, such as a mask's.
        compared = [one for one in outputs if one.passed or one.max_abs_error is not None]
        if not compared:
            found.append(_unmeasured(piece, "failed", outputs[0].reason))
            continue
        worst = max(compared, key=lambda output: output.badness)
        row = PieceRow(
            module=piece.path,
            call=piece.number,
            type=type(piece.module).__name__,
            operators=operators[id(piece.module)],
            verdict="verified" if worst.passed else "mismatched",
            max_abs_error=worst.max_abs_error,
            rtol=worst.rtol,
            atol=worst.atol,
            sample="reference" if worst.sample == "example" else "redrawn",
            is_redrawn=redrawn is not piece.tensors,
        )
        found.append(_Measured(row, worst.badness))
    return found


def _operators(together: SideBySide, folder: Path) -> dict[int, tuple[str, ...]]:
    """The operators of each module's nodes, by its identity; none where the IR is not ONNX."""
    found: dict[int, dict[str, None]] = {id(piece.module): {} for piece in together.calls}
    for node in kept_graph(folder, "pieces"):
        index = node.module.partition(".")[0]
        if index.isdigit():
            found[id(together.calls[int(index)].module)][node.operator] = None
    return {key: tuple(operators) for key, operators in found.items()}


def _unmeasured(piece: Piece, verdict: PieceVerdict, reason: str) -> _Measured:
    row = PieceRow(
        module=piece.path,
        call=piece.number,
        type=type(piece.module).__name__,
        verdict=verdict,
        reason=reason,
    )
    return _Measured(row, (True, inf if verdict == "crashed" else -inf, 0.0))
