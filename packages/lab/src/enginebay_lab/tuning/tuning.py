"""The result of a search for faster settings: a row for each setting and batch size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay import Verification
from enginebay.commands import Fields, Result, Table, short_path
from enginebay_lab.measurement.benchmark_rows import BenchmarkRow, Ratio
from enginebay_lab.measurement.machine import Machine
from enginebay_lab.shared_params import describe_params

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from enginebay.commands import Block


def name_setting(params: Mapping[str, object]) -> str:
    """Return the name of a setting, from the parameters that differ from the artifact's.

    Example:
        >>> name_setting({"threads": 2}), name_setting({})
        ('threads=2', 'as it is')
    """
    return describe_params(params).strip() or "as it is"


class TuningRow(msgspec.Struct, frozen=True, kw_only=True):
    """The last measurement of one setting at one batch size.

    Attributes:
        params: The parameters that differ from the artifact's; empty for the artifact as it is.
        verdict: ``verified``, ``mismatched``, ``unverified``, ``crashed``, or ``failed`` if the
            engine could not be built or measured.
        reason: Why the setting is not verified or not measured; empty if it is both.
        verification: The verdict with its error metrics; None if no engine ran.
        speed: The measurements; None if the setting was not measured.
        ratio: The speed relative to the artifact as it is, compared round by round; None if there
            were fewer than six common rounds, and for the artifact as it is.
    """

    params: dict[str, Any]
    verdict: str
    reason: str = ""
    verification: Verification | None = None
    speed: BenchmarkRow | None = None
    ratio: Ratio | None = None

    @classmethod
    def of_verdict(cls, params: dict[str, Any], found: Verification) -> TuningRow:
        """Build the row of a setting that was verified, and is not measured yet."""
        reason = "" if found.verdict == "verified" else found.summary()
        return cls(params=params, verdict=found.verdict, reason=reason, verification=found)

    @property
    def label(self) -> str:
        """The parameters that differ, as text: ``threads=2``, or ``as it is``."""
        return name_setting(self.params)

    @property
    def latency(self) -> float | None:
        """The median duration of a call in seconds; None if it was not measured."""
        return self.speed.call.median if self.speed and self.speed.call else None


class Tuning(Result, msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="tuning"):
    """The result of :func:`enginebay_lab.tune`.

    Attributes:
        artifact: The folder of the artifact whose settings were searched.
        rows: A row for each setting and batch size.
        outcome: What was found, in one line.
        chosen: The fastest setting at the batch size with the most items per second, as measured
            again at the end; the artifact as it is if no setting is faster beyond the noise. None
            if no call is within the limit of the latency, or the search was interrupted.
        latency_ms: The limit of the latency in milliseconds; None if there is none.
        written: The folder of the new artifact; None if nothing was written.
        machine: The machine on which the settings were measured.
        notes: Parameters that were not tried, and reasons why the measurements may be unreliable.
        command: The command or Python call that repeats the search.
    """

    artifact: str
    rows: tuple[TuningRow, ...]
    outcome: str
    chosen: TuningRow | None = None
    latency_ms: float | None = None
    written: str | None = None
    machine: Machine
    notes: tuple[str, ...] = ()
    command: str = ""

    def __repr__(self) -> str:
        return f"<Tuning of '{self.artifact}': {self.outcome}>"

    def blocks(self) -> Iterator[Block]:
        """Yield what the command prints: a table, the outcome, and the reasons of failures."""
        sizes = {row.speed.batch for row in self.rows if row.speed}
        header = ["SETTING", "VERDICT", "BATCH", "CALL", "ITEMS/S", "SPEED"]
        cells = [_row_cells(row) for row in self.rows]
        if len(sizes) <= 1:  # a column in which all rows have the same value only takes space
            del header[2]
            cells = [[*row[:2], *row[3:]] for row in cells]
        yield Table(header, cells, right=header[2:])
        yield ""
        reasons = {row.label: row.reason for row in self.rows if row.reason}
        yield Fields(
            (
                ("fastest", self.outcome),
                *((label, line) for label, text in reasons.items() for line in text.splitlines()),
                *(("note", note) for note in self.notes),
                ("artifact", short_path(Path(self.written)) if self.written else ""),
            )
        )


def _row_cells(row: TuningRow) -> list[str]:
    speed = row.speed
    return [
        row.label,
        row.verdict,
        str(speed.batch) if speed else "-",
        speed.describe_call() if speed else "-",
        speed.describe_items_per_second() if speed else "-",
        row.ratio.describe() if row.ratio else "-",
    ]
