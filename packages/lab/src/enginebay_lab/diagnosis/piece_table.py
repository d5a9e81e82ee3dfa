"""The comparison of a model's pieces (submodels that run one module call) with PyTorch.

Imported only when torch is used.
"""

from __future__ import annotations

from math import inf
from operator import is_not
from typing import TYPE_CHECKING, NamedTuple

from enginebay.errors import EnginebayError, first_line
from enginebay_lab.diagnosis.bisect_nodes import read_exported_graph
from enginebay_lab.diagnosis.model_cutter import ModelCutter
from enginebay_lab.diagnosis.module_search import group_by_size
from enginebay_lab.diagnosis.piece_rows import PieceRow
from enginebay_lab.diagnosis.pieces import SideBySide

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from enginebay_lab.diagnosis.model_cutter import CutPiece
    from enginebay_lab.diagnosis.module_search import EngineComparison
    from enginebay_lab.diagnosis.piece_engines import PieceEngines
    from enginebay_lab.diagnosis.piece_rows import PieceVerdict
    from enginebay_lab.diagnosis.pieces import Piece

#: The largest number of pieces in one engine: each engine costs two processes, so few are built.
_PIECES_PER_ENGINE = 512

#: After this many failed builds, the pieces of a failed build are reported without another build.
_MAX_BUILD_FAILURES = 24


class _RankedRow(NamedTuple):
    """A row of the table, and its sort key: the worse the result, the larger the key."""

    row: PieceRow
    badness: tuple[bool, float, float]


class PieceTable:
    """Compares a model's pieces (submodels that run one module call) in an engine with PyTorch.

    Args:
        root: The whole model as one piece.
        engines: Builds engines and compares their outputs.
    """

    def __init__(self, root: Piece, engines: PieceEngines) -> None:
        self._engines = engines
        self._cutter = ModelCutter(root, engines.find_replaced(root.module))
        self._build_failures = 0

    def build_rows(self, progress: Callable[[str], None]) -> tuple[PieceRow, ...]:
        """Run every piece (submodel) in an engine and in PyTorch, and compare the outputs.

        Args:
            progress: Called with a short text about each step.

        Returns:
            A row for each piece, the worst first.
        """
        rows: list[_RankedRow] = []
        for keys in group_by_size(self._cutter.sizes, _PIECES_PER_ENGINE):
            progress(f"{keys[0][0] or 'the model'} … {keys[-1][0] or 'the model'}")
            if cuts := self._cutter.cut_pieces(keys):
                rows += self._compare_pieces(cuts)
        if root := self._cutter.unrepeatable_model:
            rows.append(_build_failure(root, "failed", "the model's outputs differ in each run"))
        rows.sort(key=lambda ranked: ranked.badness, reverse=True)
        return tuple(ranked.row for ranked in rows)

    def _compare_pieces(self, cuts: Sequence[CutPiece]) -> list[_RankedRow]:
        """Build one engine of all pieces (submodels), and return a row for each piece.

        If the build fails or the engine crashes, try again with each half of the pieces,
        unless many builds have failed already.
        """
        together = SideBySide([cut.piece for cut in cuts])
        verdict: PieceVerdict = "failed"
        item = [tensor for cut in cuts for tensor in cut.random_inputs]
        try:
            comparison = self._engines.compare_module(
                together, together.tensors, together.names, items=[item]
            )
        except EnginebayError as err:
            failure = first_line(err)
        else:
            failure = comparison.crashed or comparison.doubt
            if not failure:
                return _build_rows(cuts, together, comparison)
            verdict = "crashed" if comparison.crashed else "failed"
        half = len(cuts) // 2
        if half and self._build_failures < _MAX_BUILD_FAILURES:
            self._build_failures += 1
            return [*self._compare_pieces(cuts[:half]), *self._compare_pieces(cuts[half:])]
        return [_build_failure(cut.piece, verdict, failure) for cut in cuts]


def _build_rows(
    cuts: Sequence[CutPiece], together: SideBySide, comparison: EngineComparison
) -> list[_RankedRow]:
    operators = _find_operators(together, comparison.folder)
    rows = []
    for index, (piece, random_inputs) in enumerate(cuts):
        outputs = [comparison.outputs[name] for name in together.piece_output_names(index)]
        # A rewriter may change the dtype or shape of a tensor between modules, such as a mask: an
        # output without an error figure was not compared.
        compared = [out for out in outputs if out.passed or out.max_abs_error is not None]
        if not compared:
            rows.append(_build_failure(piece, "failed", outputs[0].reason))
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
            is_redrawn=any(map(is_not, random_inputs, piece.tensors)),
        )
        rows.append(_RankedRow(row, worst.badness))
    return rows


def _find_operators(together: SideBySide, folder: Path) -> dict[int, tuple[str, ...]]:
    """Return the names of each module's ONNX operators; the keys are the modules' ``id()``."""
    # By module: if several pieces share one, the graph names only the first of these pieces.
    operators: dict[int, dict[str, None]] = {id(piece.module): {} for piece in together.calls}
    for node in read_exported_graph(folder, "pieces"):
        index = node.module.partition(".")[0]
        if index.isdigit():
            operators[id(together.calls[int(index)].module)][node.operator] = None
    return {key: tuple(names) for key, names in operators.items()}


def _build_failure(piece: Piece, verdict: PieceVerdict, reason: str) -> _RankedRow:
    row = PieceRow(
        module=piece.path,
        call=piece.number,
        type=type(piece.module).__name__,
        verdict=verdict,
        reason=reason,
    )
    # Crashes come first; pieces that were not compared come between wrong and right ones.
    return _RankedRow(row, (True, inf if verdict == "crashed" else -inf, 0.0))
