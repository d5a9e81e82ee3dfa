"""The result of an audit: for each model file, what it has in common with the first one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from enginebay.authors.arrays import OutputComparison  # msgspec reads the annotation
from enginebay.commands import Fields, Result, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay.commands import Block

WeightRelation: TypeAlias = Literal[
    "equal",
    "rounded to float16",
    "rounded to bfloat16",
    "quantised",
    "rearranged",
    "different",
]

#: The number of weights that a line names.
_NAMED = 3


class ChangedWeight(msgspec.Struct, frozen=True):
    """A weight that differs from its counterpart in the first file by more than rounding.

    Attributes:
        name: The weight's name in the first file.
        counterpart: Its name in this file.
        max_abs_error: The largest difference of an element.
        largest: The largest absolute value in the first file.
    """

    name: str
    counterpart: str
    max_abs_error: float
    largest: float

    def describe(self) -> str:
        """Describe the difference in a few words."""
        other = "" if self.name == self.counterpart else f" (here {self.counterpart})"
        return (
            f"{self.name}{other} by {self.max_abs_error:.2g}, its values reach {self.largest:.2g}"
        )


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """One file, compared with the first.

    Attributes:
        file: The file, as the caller wrote it.
        precision: The precision of the file's weights, inputs and operators; the coarser one of the
            two files decides the tolerance.
        same: True if the file is the same model as the first.
        remarks: How its inputs and outputs differ from those of the first file.
        nodes: The nodes that differ from those of the first file; empty if its graph is another
            exporter's, or an optimised one.
        is_compatible: True if it takes the same arrays, except for their names and their precision.
        total: The number of weights in this file.
        weights: ``rearranged`` if some weights have no counterpart, such as after a fusion; then
            the outputs decide. Else the coarsest relation of a weight to its counterpart.
        changed: The weights that differ by more than rounding.
        unmatched: The names of weights that have no counterpart in the other of the two files.
        outputs: The worst comparison of each output.
        failure: Why the file could not be run.
    """

    file: str
    precision: str
    same: bool = True
    remarks: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    is_compatible: bool = True
    total: int = 0
    weights: WeightRelation = "equal"
    changed: tuple[ChangedWeight, ...] = ()
    unmatched: tuple[str, ...] = ()
    outputs: tuple[OutputComparison, ...] = ()
    failure: str = ""

    @property
    def worst(self) -> OutputComparison | None:
        """The comparison of the worst output; None if nothing was compared."""
        return max(self.outputs, key=lambda output: output.badness, default=None)


class Audit(Result, msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="audit"):
    """The result of :func:`enginebay_lab.audit`.

    Attributes:
        same: True if all files are the same model.
        engine: What computed the outputs; empty if no file is compatible with the first.
        samples: The number of samples on which the outputs were compared.
        random: True if the caller passed no inputs.
        rows: One row for each file, the first one first.
    """

    same: bool
    engine: str
    samples: int
    random: bool
    rows: tuple[AuditRow, ...]

    @property
    def summary(self) -> str:
        """The result in one sentence."""
        first, *others = self.rows
        if self.same:
            is_changed = any(row.nodes for row in others)
            text = "the same outputs, though nodes differ" if is_changed else "the same model"
            return f"{text}: {', '.join(row.file for row in self.rows)}"
        wrong = ", ".join(row.file for row in others if not row.same)
        return f"not the same model as {first.file}: {wrong}"

    def __repr__(self) -> str:
        return f"<Audit of {len(self.rows)} files, same: {self.same}>"

    def blocks(self) -> Iterator[Block]:
        """Yield a table of the files, lines about what differs, and the result in one sentence."""
        header = ("FILE", "PRECISION", "INTERFACE", "WEIGHTS", "OUTPUTS", "WORST", "MAX ERROR")
        first, *others = self.rows
        reference = (first.file, first.precision, "reference", str(first.total), *"---")
        yield Table(header, [reference, *map(_cells, others)], right=header[6:])
        yield ""
        kind = "random samples: --input NAME=FILE passes real ones" if self.random else "samples"
        outputs = f"by {self.engine}, on {self.samples} {kind}" if self.engine else ""
        lines = [(row.file, line) for row in others for line in _lines(row)]
        yield Fields([*lines, ("outputs", outputs)])
        yield self.summary


def _cells(row: AuditRow) -> tuple[str, ...]:
    differing = f"{len(row.changed)} of {row.total} differ"
    weights = differing if row.weights == "different" else row.weights if row.total else "none"
    interface = "compatible" if row.remarks else "equal"
    interface = interface if row.is_compatible else "incompatible"
    cells = (row.file, row.precision, interface, weights)
    worst = row.worst
    if worst is None:
        return (*cells, "failed" if row.failure else "-", "-", "-")
    error = "-" if worst.max_abs_error is None else f"{worst.max_abs_error:.2g}"
    return (*cells, "agree" if worst.passed else "differ", worst.name, error)


def _lines(row: AuditRow) -> Iterator[str]:
    yield from row.remarks
    yield _list_names("nodes that differ", row.nodes)
    is_fused = row.weights == "rearranged"
    label = "fused or changed" if is_fused else "weights that differ"
    yield _list_names(label, [weight.describe() for weight in row.changed])
    yield _list_names("without a counterpart, so the outputs decide", row.unmatched)
    yield row.failure
    if (worst := row.worst) and not worst.passed:
        yield worst.describe()


def _list_names(label: str, names: Sequence[str]) -> str:
    """Return a label and the first names; "" without names."""
    more = f"; and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{label}: {'; '.join(names[:_NAMED])}{more}" if names else ""
