"""The result of a benchmark, and its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.commands import (
    Fields,
    Result,
    Table,
    describe_precision,
    human_seconds,
    human_size,
    join_names,
    receipt_fields,
)
from enginebay_lab.measurement.benchmark_rows import BenchmarkRow
from enginebay_lab.measurement.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from enginebay.authors import Latency
    from enginebay.commands import Block

#: The columns for the latency of the only row.
_SINGLE_ROW_COLUMNS = ("MEDIAN", "95 % INTERVAL", "P90", "P99", "MIN", "MAX", "RUNS")
#: The columns of a table of several rows, between the artifact and the agreement.
_TABLE_COLUMNS = (
    *("PRECISION", "BATCH", "THREADS", "CALL", "ENGINE", "P90", "P99", "ITEMS/S", "MEMORY"),
    "SPEED",
)


class Benchmark(
    Result, msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="benchmark"
):
    """The result of :func:`enginebay_lab.benchmark`.

    Attributes:
        rows: One row for each artifact, batch size and number of threads. Rows with the same batch
            size and number of threads are adjacent, the baseline first.
        machine: The machine on which the benchmark ran.
        baseline: The name of the artifact with which the other artifacts are compared, or
            ``pytorch``; empty if there is only one artifact.
        notes: Reasons why the measurements may be unreliable.
        command: The command that repeats the benchmark; empty if it was called in Python.
    """

    rows: tuple[BenchmarkRow, ...]
    machine: Machine
    baseline: str = ""
    notes: tuple[str, ...] = ()
    command: str = ""

    @property
    def failures(self) -> list[str]:
        """One line with the reason for each row that failed."""
        return [f"'{row.name}': {row.failure}" for row in self.rows if row.failure]

    def __repr__(self) -> str:
        return f"<Benchmark of {', '.join(dict.fromkeys(row.name for row in self.rows))}>"

    def blocks(self) -> Iterator[Block]:
        """Yield what the command prints: the only row or a table, and the timed layers."""
        if len(self.rows) == 1:
            yield from _row_blocks(self.rows[0], self.notes)
        else:
            yield from _table_blocks(self)
        for row in self.rows:
            if row.layers:
                yield from ("", f"layers of {_row_title(row)}", _layers_table(row))


def _layers_table(row: BenchmarkRow) -> Table:
    return Table(
        ("LAYER", "OPERATOR", "TIME", "SHARE", "NODES", "MODULE"),
        [
            (
                layer.name,
                layer.operator or "-",
                human_seconds(layer.seconds),
                f"{layer.share:.1%}",
                join_names(layer.nodes) or "-",
                join_names([module or "(the model)" for module in layer.modules]) or "-",
            )
            for layer in row.layers
        ],
        right=("TIME", "SHARE"),
    )


def _row_blocks(row: BenchmarkRow, notes: Iterable[str]) -> Iterator[Block]:
    if row.call and row.engine:
        cells = [("call", *_latency_cells(row.call)), ("engine", *_latency_cells(row.engine))]
        yield Table(("", *_SINGLE_ROW_COLUMNS), cells, right=_SINGLE_ROW_COLUMNS)
    yield Fields(
        (
            ("rate", _describe_rate(row)),
            ("load", _describe_load(row)),
            ("memory", _describe_memory(row)),
            ("windows", row.agreement.describe() if row.agreement else ""),
            *receipt_fields(row.receipt, row.requested),
            *(("note", note) for note in (*row.param_notes, *row.notes, *notes)),
        )
    )


def _latency_cells(latency: Latency) -> Iterator[str]:
    yield human_seconds(latency.median)
    yield f"{human_seconds(latency.low)} – {human_seconds(latency.high)}"
    for name in ("p90", "p99", "min", "max"):
        yield _seconds_cell(getattr(latency, name))
    yield f"{latency.runs:,}"


def _describe_rate(row: BenchmarkRow) -> str:
    if row.call is None:
        return ""
    order = "one after the other" if row.threads == 1 else f"from {row.threads} threads at once"
    items = f", {row.describe_items_per_second()} items/s" if row.batch > 1 else ""
    return f"{row.describe_calls_per_second()} calls/s{items}, {order}"


def _describe_load(row: BenchmarkRow) -> str:
    if row.load is None or row.first is None:
        return ""
    return f"{human_seconds(row.load)}, then {human_seconds(row.first)} for the first call"


def _describe_memory(row: BenchmarkRow) -> str:
    if row.peak_memory is None or row.bare_memory is None:
        return ""
    above = human_size(row.peak_memory - row.bare_memory)
    return f"{human_size(row.peak_memory)} at most, {above} more than before loading"


def _table_blocks(measured: Benchmark) -> Iterator[Block]:
    # A column in which all rows have the same value only takes space.
    cells = [_row_cells(row) for row in measured.rows]
    hidden = {
        name
        for name in ("PRECISION", "BATCH", "THREADS")
        if len(values := {row[name] for row in cells} - {"-"}) <= 1 and "→" not in "".join(values)
    }
    columns = [name for name in _TABLE_COLUMNS if name not in hidden]
    yield Table(
        ("ARTIFACT", *columns, "AGREED"),
        [
            (row.name, *(texts[name] for name in columns), _agreement_cell(row))
            for row, texts in zip(measured.rows, cells, strict=True)
        ],
        right=(*(name for name in columns if name != "PRECISION"), "AGREED"),
    )
    yield Fields([("note", note) for note in _collect_notes(measured)])


def _collect_notes(measured: Benchmark) -> Iterator[str]:
    if measured.baseline:
        yield (
            f"SPEED is relative to '{measured.baseline}', with the 95 % confidence interval; shown "
            "only if both rows agreed (column AGREED)"
        )
    for row in measured.rows:
        for note in (*row.param_notes, *row.notes, *(row.receipt.fallbacks if row.receipt else ())):
            yield f"{_row_title(row)}: {note}"
    yield from measured.notes


def _row_title(row: BenchmarkRow) -> str:
    batch = f", batch {row.batch}" if row.batch > 1 else ""
    return f"'{row.name}'{batch}{f', {row.threads} threads' if row.threads > 1 else ''}"


def _row_cells(row: BenchmarkRow) -> dict[str, str]:
    peak, ratio = row.peak_memory, row.ratio
    return {
        "PRECISION": describe_precision(row.requested, row.precision) or "-",
        "BATCH": str(row.batch),
        "THREADS": str(row.threads),
        "CALL": row.describe_call(),
        "ENGINE": row.describe_engine(),
        "P90": _seconds_cell(row.call.p90 if row.call else None),
        "P99": _seconds_cell(row.call.p99 if row.call else None),
        "ITEMS/S": row.describe_items_per_second(),
        "MEMORY": "-" if peak is None else human_size(peak),
        "SPEED": ratio.describe() if ratio else "-",
    }


def _agreement_cell(row: BenchmarkRow) -> str:
    if row.failure:
        return "failed"
    if row.agreement is None:
        return "-"
    return f"{'within' if row.agreement.agreed else 'no:'} {row.agreement.percent}"


def _seconds_cell(seconds: float | None) -> str:
    return "-" if seconds is None else human_seconds(seconds)
