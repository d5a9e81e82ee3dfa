"""The result of ``pieces``: a row for each piece (submodel that runs one call of a module)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

import msgspec

from enginebay.commands import Fields, Result, Table
from enginebay_lab.diagnosis.bisection import call_title, format_figure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay.commands import Block

#: Whether a piece agrees, differs, crashed its engine, or could not be compared.
PieceVerdict = Literal["verified", "mismatched", "crashed", "failed"]

#: The descriptions of verdicts after their counts in the summary.
_COUNTED: dict[PieceVerdict, str] = {
    "mismatched": "wrong",
    "crashed": "with a crash of the engine",
    "failed": "not compared",
}


class PieceRow(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of one piece: a submodel that runs one call of a module.

    Attributes:
        module: The module's path; empty for the code of the model itself.
        call: The index of the call among the module's calls, from 0.
        type: The name of the module's class, such as ``Conv2d``.
        operators: The operators of the module's ONNX nodes; empty if the engine is not built from
            ONNX.
        verdict: ``verified``, ``mismatched``, ``crashed``, or ``failed`` if nothing could be
            compared.
        reason: Why nothing was compared; empty if something was compared.
        max_abs_error: The largest absolute difference of the worst output; None if nothing was
            compared.
        rtol: The relative tolerance for the worst output; None if nothing was compared.
        atol: The absolute tolerance for the worst output; None if nothing was compared.
        sample: The inputs on which the worst output was compared: ``reference`` for the piece's
            inputs in PyTorch, ``redrawn`` for random values within the ranges of these inputs;
            empty if nothing was compared.
        is_redrawn: True if the piece was compared on random inputs too; False if random inputs
            cannot be compared, for example because the piece raises an exception on them.
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
        """The call's title: ``body.l`` for the first call, ``body.l (call 2)`` for the second."""
        return call_title(self.module, self.call)


class Pieces(Result, msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="pieces"):
    """The result of :func:`enginebay_lab.pieces`.

    Attributes:
        backend: The backend's name.
        precision: The lowest precision that the engines may compute in; it determines the
            tolerances.
        reference: The name of the reference with which the engines were compared: ``PyTorch``.
        engines: The number of engines that were built.
        rows: A row for each piece (submodel that runs one call of a module), the worst first.
    """

    backend: str
    precision: str = ""
    reference: str = ""
    engines: int = 0
    rows: tuple[PieceRow, ...] = ()

    @property
    def unverified(self) -> tuple[PieceRow, ...]:
        """The rows of all pieces that are not verified, the worst first."""
        return tuple(row for row in self.rows if row.verdict != "verified")

    @property
    def passed(self) -> bool:
        """True if at least one piece was compared, and all compared pieces agree with PyTorch."""
        return {row.verdict for row in self.rows} - {"failed"} == {"verified"}

    @property
    def summary(self) -> str:
        """The numbers of pieces by verdict, as ``411 of 412 pieces agree alone; 1 wrong``."""
        counts = Counter(row.verdict for row in self.rows)
        text = f"{counts['verified']} of {len(self.rows)} pieces agree alone"
        others = [f"{counts[key]} {words}" for key, words in _COUNTED.items() if counts[key]]
        return "; ".join((text, ", ".join(others))) if others else text

    def __repr__(self) -> str:
        return f"<Pieces on {self.backend}: {self.summary}>"

    def blocks(self) -> Iterator[Block]:
        """Yield the summary, and a table of the pieces that are not verified."""
        yield self.summary
        yield Fields([("precision", self.precision), ("engines", f"{self.engines} built")])
        if rows := [_row_cells(row) for row in self.unverified]:
            numbers = ("ERROR", "RTOL", "ATOL")
            yield Table(("MODULE", "OPERATORS", *numbers, ""), rows, right=numbers)


def _row_cells(row: PieceRow) -> tuple[str, ...]:
    operators = ",".join(row.operators) or row.type
    figures = map(format_figure, (row.max_abs_error, row.rtol, row.atol))
    return row.title, operators, *figures, row.reason or f"on {row.sample} values"
