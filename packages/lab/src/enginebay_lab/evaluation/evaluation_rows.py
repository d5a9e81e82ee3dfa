"""What an evaluation finds: a row for each artifact and metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.authors import DataRecord
from enginebay.commands import Fields, Result, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay.commands import Block

#: What a row is called in a file of rows.
ROW_KIND = "evaluation row"

_RIGHT = ("VALUE", "PYTORCH", "DROP", "ITEMS", "AGREEMENT")


class WorstItem(msgspec.Struct, frozen=True):
    """An item that an artifact is far from PyTorch on.

    Attributes:
        item: Its number in the source.
        error: The distance of the outputs from PyTorch's, as a part of PyTorch's own length:
            ``|found - expected| / |expected|``; None where it is no finite number.
    """

    item: int
    error: float | None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a metric for an artifact, beside PyTorch's on the same items.

    Attributes:
        artifact: The folder as it was named.
        backend: The backend that made it.
        metric: The metric as it was named.
        value: The artifact's value; None where it has none, or NaN or infinity.
        reference: PyTorch's value; None without a model.
        drop: How much worse the artifact is: negative where it is better. None where a value is
            missing.
        count: How many items.
        agreement: The share of the items on which the artifact decides as PyTorch does: the
            largest entry along the last axis of each output is at the same place, and integers
            are the same. None without a model, and where no output decides anything.
        worst: The items that the artifact is farthest from PyTorch on, the worst one first.
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
        """Say in one line why the row fails; empty where it does not.

        Args:
            max_drop: The largest drop that passes; None where any does.

        Example:
            >>> row = Row(artifact="a", backend="b", metric="accuracy", value=0.9, reference=0.98,
            ...           drop=0.08, count=50)
            >>> row.failure(0.01)
            "'a': accuracy is 0.9, and 0.98 in PyTorch: a drop of 0.08 on 50 items, above 0.01"
            >>> row.failure(0.1)
            ''
        """
        named = f"'{self.artifact}': {self.metric}"
        if self.error:
            return f"{named}: {self.error}"
        if max_drop is None:
            return ""
        if self.drop is None:
            missing = "the artifact" if self.value is None else "PyTorch"
            return f"{named} has no value for {missing} that is a number, on {self.count} items"
        if self.drop <= max_drop:
            return ""
        return (
            f"{named} is {self.value:.6g}, and {self.reference:.6g} in PyTorch: a drop of "
            f"{self.drop:.6g} on {self.count} items, above {max_drop:g}"
        )


class Evaluation(
    Result, msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="evaluation"
):
    """What :func:`enginebay_lab.evaluate` found.

    Attributes:
        rows: One for each artifact and metric, in the order in which they were named.
        data: The items that were used.
        reference: What the artifacts were compared with; empty without a model.
        command: What to type to evaluate again; empty where it was called in Python.
    """

    rows: tuple[Row, ...]
    data: DataRecord
    reference: str = ""
    command: str = ""

    def __repr__(self) -> str:
        return f"<Evaluation on {self.data.source}, rows: {len(self.rows)}>"

    def blocks(self) -> Iterator[Block]:
        """A row for each artifact and metric."""
        rows = [_cells(row) for row in self.rows]
        yield Table(("ARTIFACT", "METRIC", *_RIGHT, "WORST ITEMS"), rows, right=_RIGHT)
        notes = []
        if self.data.targets:
            notes.append(f"the targets are numbered by {self.data.targets}")
        if not self.reference:
            notes.append("no model was named, so nothing is compared; add --model MODEL")
        yield Fields([("note", note) for note in notes])

    def failures(self, max_drop: float | None = None) -> list[str]:
        """One line for each row that fails: its artifact was lost, or dropped by more than that.

        Args:
            max_drop: The largest drop that passes; None where any does.
        """
        return [text for row in self.rows if (text := row.failure(max_drop))]


def _cells(row: Row) -> tuple[str, ...]:
    worst = [
        f"{one.item} (not a number)" if one.error is None else f"{one.item} ({one.error:.2g})"
        for one in row.worst[:3]
    ]
    figures = (_figure(row.value), _figure(row.reference), _figure(row.drop))
    agreement = "-" if row.agreement is None else f"{row.agreement:.2%}"
    return (
        *(row.artifact, row.metric, *figures, str(row.count), agreement),
        ", ".join(worst) or "-",
    )


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
