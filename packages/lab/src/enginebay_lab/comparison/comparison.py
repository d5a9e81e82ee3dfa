"""The result of a comparison: a row for each backend and precision, and their file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from enginebay import Verification
from enginebay.authors import write_whole
from enginebay.commands import (
    Fields,
    Result,
    Table,
    human_number,
    human_seconds,
    human_size,
    short_path,
)
from enginebay_lab.measurement.benchmark_rows import BenchmarkRow
from enginebay_lab.measurement.machine import Machine
from enginebay_lab.measurement.statistics import select_fastest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay.commands import Block

#: The file of a comparison's folder that holds its rows.
ROWS_FILE = "comparison.json"


class ComparisonRow(msgspec.Struct, frozen=True, kw_only=True):
    """One backend at one precision.

    Attributes:
        backend: The backend's name.
        precision: The precision; empty where the backend has none, or cannot be used.
        verdict: ``verified``, ``mismatched``, ``unverified``, ``crashed``, or ``failed`` where no
            engine could be built.
        reason: Why it is not verified; else empty.
        hint: What to type next, where something does; else empty.
        verification: The figures behind the verdict; None for ``failed``.
        artifact: The artifact's folder; None where none was published.
        size: Bytes of its files.
        seconds: How long it took to deploy.
        notes: For the caller, as :class:`enginebay.Deployment` has them.
        speed: How fast the artifact is, beside the first one that was measured; None where it was
            not measured.
    """

    backend: str
    precision: str
    verdict: str
    reason: str = ""
    hint: str = ""
    verification: Verification | None = None
    artifact: str | None = None
    size: int | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    speed: BenchmarkRow | None = None

    @property
    def label(self) -> str:
        """The backend and its precision: ``openvino fp16``."""
        return f"{self.backend} {self.precision}".rstrip()

    @property
    def latency(self) -> float | None:
        """Seconds of a call, the median; None where it was not measured."""
        return self.speed.call.median if self.speed and self.speed.call else None

    @property
    def max_abs_error(self) -> float | None:
        """The largest absolute error of any output; None where nothing was compared."""
        outputs = self.verification.outputs if self.verification else ()
        errors = [one.max_abs_error for one in outputs if one.max_abs_error is not None]
        return max(errors, default=None)


class Comparison(
    Result, msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="comparison"
):
    """The result of :func:`enginebay_lab.compare`.

    Attributes:
        model: What was deployed.
        reference: What it was compared with.
        rows: One for each backend and precision, in the order they were requested.
        machine: What the artifacts were measured on; None where none was measured.
        notes: Why the figures should be taken with care; empty where nothing was seen.
        command: What to type to compare again.
    """

    model: str
    reference: str = ""
    rows: tuple[ComparisonRow, ...] = ()
    machine: Machine | None = None
    notes: tuple[str, ...] = ()
    command: str = ""

    @property
    def verified(self) -> tuple[ComparisonRow, ...]:
        """The rows whose artifacts are verified."""
        return tuple(row for row in self.rows if row.verdict == "verified")

    @property
    def fastest(self) -> tuple[ComparisonRow, ...]:
        """The verified rows that are fastest within the noise, the shortest call first.

        Empty where none was measured.
        """
        speeds = [row.speed for row in self.verified if row.speed]
        rows = {row.artifact: row for row in self.verified}
        return tuple(rows[speed.artifact] for speed in select_fastest(speeds))

    def __repr__(self) -> str:
        return f"<Comparison of {self.model}, rows: {len(self.rows)}>"

    def blocks(self) -> Iterator[Block]:
        """A row for each backend and precision, why one is not verified, and the fastest."""
        is_measured = any(row.speed for row in self.rows)
        figures = ("CALL", "ITEMS/S", "LOAD", "MEMORY") if is_measured else ()
        header = ("BACKEND", "PRECISION", "VERDICT", "MAX ERROR", "SIZE", "DEPLOY", *figures)
        rows = [(*_verdict(row), *(_speed(row) if is_measured else ())) for row in self.rows]
        yield Table(header, rows, right=header[3:])
        yield ""
        folders = {str(Path(row.artifact).parent) for row in self.rows if row.artifact}
        yield Fields(
            (
                ("reference", self.reference),
                *(line for row in self.rows for line in _reason(row)),
                ("fastest", _fastest(self)),
                *(("note", note) for note in self.notes),
                ("folder", ", ".join(short_path(Path(folder)) for folder in folders)),
            )
        )

    def save(self, folder: Path) -> None:
        """Write the rows to the comparison's folder, whole or not at all."""
        data = msgspec.json.format(msgspec.json.encode(self), indent=2)
        write_whole(folder / ROWS_FILE, data + b"\n")


def _fastest(comparison: Comparison) -> str:
    labels = [row.label for row in comparison.fastest]
    if not labels:
        return ""
    noise = "equally fast within the noise, " if len(labels) > 1 else ""
    return f"{', '.join(labels)}, {noise}of those verified"


def _reason(row: ComparisonRow) -> Iterator[tuple[str, str]]:
    if row.reason:
        yield row.label, row.reason
    elif row.verification:
        yield from ((row.label, text) for text in row.verification.fallbacks)
    if row.speed and row.speed.failure:
        yield row.label, f"it could not be measured: {row.speed.failure}"
    if row.hint:
        yield row.label, f"hint: {row.hint}"


def _verdict(row: ComparisonRow) -> tuple[str, ...]:
    return (
        row.backend,
        row.precision or "-",
        row.verdict,
        "-" if row.max_abs_error is None else f"{row.max_abs_error:.2g}",
        "-" if row.size is None else human_size(row.size),
        human_seconds(row.seconds) if row.seconds else "-",
    )


def _speed(row: ComparisonRow) -> tuple[str, ...]:
    speed = row.speed
    if speed is None or speed.call is None:
        return ("-",) * 4
    return (
        human_seconds(speed.call.median),
        "-" if speed.items_per_second is None else human_number(speed.items_per_second),
        "-" if speed.load is None else human_seconds(speed.load),
        "-" if speed.peak_memory is None else human_size(speed.peak_memory),
    )
