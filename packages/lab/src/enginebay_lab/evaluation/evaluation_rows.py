"""The result of an evaluation: a row for each artifact and metric."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING

import msgspec

from enginebay.authors.sources import DataRecord
from enginebay.commands import Fields, Result, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay.commands import Block

#: The ``kind`` of each line in a rows file.
ROW_KIND = "evaluation row"

#: The right-aligned columns.
_NUMBER_COLUMNS = ("VALUE", "PYTORCH", "DROP", "ITEMS", "AGREEMENT")


class WorstItem(msgspec.Struct, frozen=True):
    """An item on which an artifact's outputs differ much from PyTorch's.

    Attributes:
        item: The index of the item in the data set's source.
        error: The relative distance ``|found - expected| / |expected|`` of the artifact's outputs
            from PyTorch's (Euclidean norm over all outputs); None if it is not finite.
    """

    item: int
    error: float | None


class EvaluationRow(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a metric for an artifact, and PyTorch's value on the same items.

    Attributes:
        artifact: The artifact's folder, as the caller wrote it.
        backend: The name of the backend that built the artifact.
        precision: The precision that the engine computed in when it was verified; ``fp16 → fp32``
            if another one was requested.
        metric: The metric, as the caller wrote it.
        value: The metric's value for the artifact; None if it could not be computed or is not
            finite.
        reference: The metric's value for PyTorch; None without a model, or if it is not finite.
        drop: By how much the artifact's value is worse than PyTorch's; negative if it is better.
            None if one of the two values is missing.
        count: The number of items.
        agreement: The fraction of the items on which the artifact's decisions equal PyTorch's. The
            decisions are the argmax along the last axis of class scores, and all values of integer
            outputs. None without a model, or if no output has a decision.
        beyond: The number of items that lie beyond the range of values and sizes that the artifact
            was verified with; None if the artifact records no range.
        worst: The items on which the artifact's outputs differ most from PyTorch's, the largest
            difference first.
        error: The reason if there is no value: the engine failed, or the metric raised. Otherwise
            empty.
        key: A digest of the artifact, the metric, the model and the data.
    """

    artifact: str
    backend: str
    precision: str = ""
    metric: str
    value: float | None = None
    reference: float | None = None
    drop: float | None = None
    count: int = 0
    agreement: float | None = None
    beyond: int | None = None
    worst: tuple[WorstItem, ...] = ()
    error: str = ""
    key: str = ""

    def allows(self, max_drop: float) -> bool:
        """Return True if the drop is known, and at most ``max_drop``, apart from rounding."""
        if self.drop is None:
            return False
        # One of 100 items: 0.98 - 0.97 is 0.010000000000000009.
        return self.drop <= max_drop or math.isclose(self.drop, max_drop)

    def failure(self, max_drop: float | None = None) -> str:
        """Return in one line why the row fails; an empty string if it passes.

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
        if self.allows(max_drop):
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
        data: The record of the data set: its source, the number of items and their digest.
        reference: The model with which the artifacts are compared; empty without a model.
        command: The command that repeats the evaluation; empty if it was called in Python.
        batch_note: Why an item is a whole batch; empty if each item is one row.
        other_weights: The artifacts made from other weights than those of the model that they are
            compared with → the name of the model that each was made from, empty if unknown.
    """

    rows: tuple[EvaluationRow, ...]
    data: DataRecord
    reference: str = ""
    command: str = ""
    batch_note: str = ""
    other_weights: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<Evaluation on {self.data.source}, rows: {len(self.rows)}>"

    def blocks(self) -> Iterator[Block]:
        """Yield a table with a row for each artifact and metric, then notes."""
        precisions = {row.precision for row in self.rows}
        # A column in which all rows have the same value only takes space.
        named = ["PRECISION"] * (len(precisions) > 1 or any("→" in name for name in precisions))
        rows = [_format_row(row, len(named)) for row in self.rows]
        header = ("ARTIFACT", *named, "METRIC", *_NUMBER_COLUMNS, "WORST ITEMS")
        yield Table(header, rows, right=_NUMBER_COLUMNS)
        notes = [
            f"{row.beyond} of {row.count} items lie beyond what '{row.artifact}' was verified with"
            for row in {row.artifact: row for row in self.rows}.values()
            if row.beyond
        ]
        if self.data.targets:
            notes.append(f"the targets are numbered by {self.data.targets}")
        if self.batch_note:
            notes.append(self.batch_note)
        if not self.reference:
            notes.append("metrics are not compared with PyTorch's; to compare, add --model MODEL")
        warnings = [("warning", self._describe_weights(name)) for name in self.other_weights]
        yield Fields([*warnings, *(("note", note) for note in notes)])

    def failures(self, max_drop: float | None = None) -> list[str]:
        """Return one line for each row that fails, as in ``EvaluationRow.failure``.

        With ``max_drop``, an artifact of other weights than the model's fails too: its drop is not
        what the engine loses.

        Args:
            max_drop: The largest drop that passes; None to accept any drop.
        """
        others = [] if max_drop is None else [*map(self._describe_weights, self.other_weights)]
        return others + [text for row in self.rows if (text := row.failure(max_drop))]

    def _describe_weights(self, name: str) -> str:
        model = self.other_weights[name]
        own = f"compare it with its own: --model {shlex.quote(model)}" if model else ""
        return (
            f"'{name}' was made from other weights than the model's, so its drop is not what the "
            f"engine loses; {own or 'pass the model that it was made from'}"
        )


def _format_row(row: EvaluationRow, with_precision: int) -> tuple[str, ...]:
    worst = [
        f"{item.item} (not a number)" if item.error is None else f"{item.item} ({item.error:.2g})"
        for item in row.worst[:3]
    ]
    figures = (row.value, row.reference, row.drop)
    agreement = "-" if row.agreement is None else f"{row.agreement:.2%}"
    return (
        row.artifact,
        *([row.precision or "-"] * with_precision),
        row.metric,
        *map(_format_figure, figures),
        str(row.count),
        agreement,
        ", ".join(worst) or "-",
    )


def _format_figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
