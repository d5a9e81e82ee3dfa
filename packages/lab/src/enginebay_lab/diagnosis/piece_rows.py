"""The result of ``pieces``: a row for each piece of a model."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

import msgspec

from enginebay.commands import Fields, Result, Table
from enginebay_lab.diagnosis.bisection import call_title, format_figure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay.commands import Block

#: The verdict on a piece: it agrees, differs, crashed its engine, or could not be compared.
PieceVerdict = Literal["verified", "mismatched", "crashed", "failed"]

#: The words for the verdicts in the summary.
_COUNTED: dict[PieceVerdict, str] = {
    "mismatched": "wrong",
    "crashed": "with a crash of the engine",
    "failed": "not compared",
}


class PieceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a module, without the calls of other modules inside it.

    Attributes:
        module: The module's path; empty for the model's own code.
        call: The number of the call, from 0.
        type: The module's class: ``Conv2d``.
        operators: The module's operators in the ONNX graph; empty if the engine is not built from
            ONNX.
        verdict: ``verified``, ``mismatched``, ``crashed``, or ``failed`` if nothing could be
            compared.
        reason: Why nothing was compared; empty if there are figures.
        max_abs_error: The largest absolute difference of its worst tensor; None if nothing was
            compared.
        rtol: The relative tolerance for that tensor.
        atol: The absolute tolerance for that tensor.
        sample: The inputs with the worst difference: ``reference`` for the reference's tensors,
            ``redrawn`` for random values within their ranges.
        is_redrawn: True if both inputs were compared; False if the piece accepts no other values.
    """

    module: str
    call: int = 0
    type: str = ""
    operators: tuple[str, ...] = ()
    verdict: PieceVerdict
    reason: str = ""
    max_abs_error: float | None = None
    rtol: float | None = None
    atol: float | None = None
    sample: str = ""
    is_redrawn: bool = False

    @property
    def title(self) -> str:
        """The path; from the second call on, with the number of the call."""
        return call_title(self.module, self.call)


class Pieces(Result, msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="pieces"):
    """The result of :func:`enginebay_lab.pieces`.

    Attributes:
        backend: The backend.
        precision: The coarsest precision that its engine may use; it sets the tolerances.
        reference: The reference of the comparison.
        engines: The number of engines that were built.
        rows: A row for each piece, the worst first.
    """

    backend: str
    precision: str = ""
    reference: str = ""
    engines: int = 0
    rows: tuple[PieceRow, ...] = ()

    @property
    def unverified(self) -> tuple[PieceRow, ...]:
        """The pieces that differ, crash the engine or could not be compared, the worst first."""
        return tuple(row for row in self.rows if row.verdict != "verified")

    @property
    def passed(self) -> bool:
        """True if at least one piece was compared, and all compared pieces agree."""
        return {row.verdict for row in self.rows} - {"failed"} == {"verified"}

    @property
    def summary(self) -> str:
        """The counts in one line: ``412 of 412 pieces agree alone``."""
        counts = Counter(row.verdict for row in self.rows)
        text = f"{counts['verified']} of {len(self.rows)} pieces agree alone"
        others = [f"{counts[key]} {words}" for key, words in _COUNTED.items() if counts[key]]
        return "; ".join((text, ", ".join(others))) if others else text

    def __repr__(self) -> str:
        return f"<Pieces on {self.backend}: {self.summary}>"

    def blocks(self) -> Iterator[Block]:
        """The summary, and a row for each piece that is not verified."""
        yield self.summary
        yield Fields([("precision", self.precision), ("engines", f"{self.engines} built")])
        if rows := [_cells(row) for row in self.unverified]:
            numbers = ("ERROR", "RTOL", "ATOL")
            yield Table(("MODULE", "OPERATORS", *numbers, ""), rows, right=numbers)


def _cells(row: PieceRow) -> tuple[str, ...]:
    operators = ",".join(row.operators) or row.type
    figures = map(format_figure, (row.max_abs_error, row.rtol, row.atol))
    return row.title, operators, *figures, row.reason or f"on {row.sample} values"
