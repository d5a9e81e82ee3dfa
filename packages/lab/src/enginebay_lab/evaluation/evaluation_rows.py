"""The result of an evaluation: a row for each artifact and metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.authors import DataRecord
from enginebay.commands import Fields, Result, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay.commands import Block

#: The ``kind`` of these rows in a file of rows.
ROW_KIND = "evaluation row"

_NUMBER_COLUMNS = ("VALUE", "PYTORCH", "DROP", "ITEMS", "AGREEMENT")


class WorstItem(msgspec.Struct, frozen=True):
    """An item on which an artifact is far from PyTorch.

    Attributes:
        item: Its number in the source.
        error: The distance of the outputs from PyTorch's, relative to the length of PyTorch's:
            ``|found - expected| / |expected|``; None if it is not finite.
    """

    item: int
    error: float | None


class EvaluationRow(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a metric for an artifact, and PyTorch's value on the same items.

    Attributes:
        artifact: The artifact's folder, as the caller wrote it.
        backend: The backend that built the artifact.
        metric: The metric, as the caller wrote it.
        value: The artifact's value; None if it has none, or NaN or infinity.
        reference: PyTorch's value; None without a model.
        drop: How much worse the artifact is: negative if it is better. None if a value is missing.
        count: The number of items.
        agreement: The fraction of the items on which the artifact decides as PyTorch does: the
            largest entry along the last axis of each output is at the same index, and integers are
            equal. None without a model, or if no output decides.
        worst: The items on which the artifact is farthest from PyTorch, the farthest first.
        error: Why there is no value: the artifact crashed, or the metric raised; else empty.
        key: A digest of the artifact, the metric, the model and the data.
    """

    artifact: str
    backend: str
    metric: str
    value: float | None = None
    reference: float | None = None
    drop: float | None = None
    count: int = 0
    agreement: float | None = None
    worst: tuple[WorstItem, ...] = ()
    error: str = ""
    key: str = ""

    def failure(self, max_drop: float | None = None) -> str:
        """Describe in one line why the row fails; empty if it passes.

        Args:
            max_drop: The largest drop that passes; None to accept any drop.

        Example:
            >>> row = EvaluationRow(artifact="a", backend="b", metric="accuracy", value=0.9,
            ...                     reference=0.98, drop=0.08, count=50)
            >>> row.failure(0.01)
            "'a': accuracy is 0.9, and 0.98 in PyTorch: a drop of 0.08 on 50 items, above 0.01"
            >>> row.failure(0.1)
            ''
        """
        subject = f"'{self.artifact}': {self.metric}"
        if self.error:
            return f"{subject}: {self.error}"
        if max_drop is None:
            return ""
        if self.drop is None:
            missing = "the artifact" if self.value is None else "PyTorch"
            return f"{subject} has no finite value for {missing}, on {self.count} items"
        if self.drop <= max_drop:
            return ""
        return (
            f"{subject} is {self.value:.6g}, and {self.reference:.6g} in PyTorch: a drop of "
            f"{self.drop:.6g} on {self.count} items, above {max_drop:g}"
        )


class Evaluation(
    Result, msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="evaluation"
):
    """The result of :func:`enginebay_lab.evaluate`.

    Attributes:
        rows: A row for each artifact and metric, in the order of the arguments.
        data: A record of the items.
        reference: A description of the model that artifacts were compared with; empty without one.
        command: The command that repeats the evaluation; empty if it was called in Python.
    """

    rows: tuple[EvaluationRow, ...]
    data: DataRecord
    reference: str = ""
    command: str = ""

    def __repr__(self) -> str:
        return f"<Evaluation on {self.data.source}, rows: {len(self.rows)}>"

    def blocks(self) -> Iterator[Block]:
        """Yield a table with a row for each artifact and metric, and the notes."""
        rows = [_format_row(row) for row in self.rows]
        header = ("ARTIFACT", "METRIC", *_NUMBER_COLUMNS, "WORST ITEMS")
        yield Table(header, rows, right=_NUMBER_COLUMNS)
        notes = []
        if self.data.targets:
            notes.append(f"the targets are numbered by {self.data.targets}")
        if not self.reference:
            notes.append("no model was named, so nothing is compared; add --model MODEL")
        yield Fields([("note", note) for note in notes])

    def failures(self, max_drop: float | None = None) -> list[str]:
        """Return one line for each row that fails: an artifact was lost, or dropped too much.

        Args:
            max_drop: The largest drop that passes; None to accept any drop.
        """
        return [text for row in self.rows if (text := row.failure(max_drop))]


def _format_row(row: EvaluationRow) -> tuple[str, ...]:
    worst = [
        f"{item.item} (not a number)" if item.error is None else f"{item.item} ({item.error:.2g})"
        for item in row.worst[:3]
    ]
    figures = (row.value, row.reference, row.drop)
    agreement = "-" if row.agreement is None else f"{row.agreement:.2%}"
    return (
        *(row.artifact, row.metric, *map(_format_figure, figures), str(row.count), agreement),
        ", ".join(worst) or "-",
    )


def _format_figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
