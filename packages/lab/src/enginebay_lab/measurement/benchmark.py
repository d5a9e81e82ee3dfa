"""The result of a benchmark, and the tables that it is shown as."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.commands import (
    Fields,
    Result,
    Table,
    human_number,
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
    from enginebay_lab.measurement.benchmark_rows import Ratio

_ONE = ("MEDIAN", "95 % INTERVAL", "P90", "P99", "MIN", "MAX", "RUNS")
_SEVERAL = ("BATCH", "THREADS", "CALL", "ENGINE", "P90", "P99", "ITEMS/S", "MEMORY", "SPEED")


class Benchmark(
    Result, msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="benchmark"
):
    """What :func:`enginebay_lab.benchmark` found.

    Attributes:
        rows: One for each artifact, batch and number of threads; those that ran against one
            another follow one another, the baseline first.
        machine: What it was measured on.
        baseline: The name of the rows that the others are compared with; empty where there is
            only one artifact.
        notes: Why all figures should be taken with care; empty where nothing was seen.
        command: What to type to measure again; empty where it was called in Python.
    """

    rows: tuple[BenchmarkRow, ...]
    machine: Machine
    baseline: str = ""
    notes: tuple[str, ...] = ()
    command: str = ""

    @property
    def failures(self) -> list[str]:
        """A line for each row that has no figures."""
        return [f"'{row.name}': {row.failure}" for row in self.rows if row.failure]

    def __repr__(self) -> str:
        return f"<Benchmark of {', '.join(dict.fromkeys(row.name for row in self.rows))}>"

    def blocks(self) -> Iterator[Block]:
        """All of an only row, or a line for each, and the layers that were timed."""
        if len(self.rows) == 1:
            yield from _row_blocks(self.rows[0], self.notes)
        else:
            yield from _rows_blocks(self)
        for row in self.rows:
            if row.layers:
                yield from ("", f"layers of {_named(row)}", _layers_table(row))


def _layers_table(row: BenchmarkRow) -> Table:
    """A row's layers in the order in which they run."""
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
    """All that is known of an only row."""
    if row.call and row.engine:
        cells = [("call", *_figures(row.call)), ("engine", *_figures(row.engine))]
        yield Table(("", *_ONE), cells, right=_ONE)
    yield Fields(
        (
            ("rate", _rate(row)),
            ("load", _load(row)),
            ("memory", _memory(row)),
            ("windows", row.agreement.describe() if row.agreement else ""),
            *receipt_fields(row.receipt),
            *(("note", note) for note in (*row.notes, *notes)),
        )
    )


def _figures(latency: Latency) -> Iterator[str]:
    yield human_seconds(latency.median)
    yield f"{human_seconds(latency.low)} – {human_seconds(latency.high)}"
    for name in ("p90", "p99", "min", "max"):
        yield _seconds(getattr(latency, name))
    yield f"{latency.runs:,}"


def _rate(row: BenchmarkRow) -> str:
    if row.calls_per_second is None or row.items_per_second is None:
        return ""
    order = "one after the other" if row.threads == 1 else f"from {row.threads} threads at once"
    items = f", {human_number(row.items_per_second)} items/s" if row.batch > 1 else ""
    return f"{human_number(row.calls_per_second)} calls/s{items}, {order}"


def _load(row: BenchmarkRow) -> str:
    if row.load is None or row.first is None:
        return ""
    return f"{human_seconds(row.load)}, then {human_seconds(row.first)} for the first call"


def _memory(row: BenchmarkRow) -> str:
    if row.peak_memory is None or row.bare_memory is None:
        return ""
    above = human_size(row.peak_memory - row.bare_memory)
    return f"{human_size(row.peak_memory)} at most, {above} above the process without it"


def _rows_blocks(measured: Benchmark) -> Iterator[Block]:
    """A line for each row, and below them what limits it."""
    several = [
        name
        for name, count in (("BATCH", "batch"), ("THREADS", "threads"))
        if len({getattr(row, count) for row in measured.rows}) > 1
    ]
    hidden = {"BATCH", "THREADS"} - set(several)
    columns = [name for name in _SEVERAL if name not in hidden]
    yield Table(
        ("ARTIFACT", *columns, "AGREED"),
        [
            (row.name, *(_cells(row)[name] for name in columns), _agreed(row))
            for row in measured.rows
        ],
        right=(*columns, "AGREED"),
    )
    yield Fields([("note", note) for note in _notes(measured)])


def _notes(measured: Benchmark) -> Iterator[str]:
    if measured.baseline:
        yield f"SPEED is beside '{measured.baseline}', with its 95 % interval, where both agreed"
    for row in measured.rows:
        for note in (*row.notes, *(row.receipt.fallbacks if row.receipt else ())):
            yield f"{_named(row)}: {note}"
    yield from measured.notes


def _named(row: BenchmarkRow) -> str:
    batch = f", batch {row.batch}" if row.batch > 1 else ""
    return f"'{row.name}'{batch}{f', {row.threads} threads' if row.threads > 1 else ''}"


def _cells(row: BenchmarkRow) -> dict[str, str]:
    items, peak, ratio = row.items_per_second, row.peak_memory, row.ratio
    return {
        "BATCH": str(row.batch),
        "THREADS": str(row.threads),
        "CALL": _seconds(row.call.median if row.call else None),
        "ENGINE": _seconds(row.engine.median if row.engine else None),
        "P90": _seconds(row.call.p90 if row.call else None),
        "P99": _seconds(row.call.p99 if row.call else None),
        "ITEMS/S": "-" if items is None else human_number(items),
        "MEMORY": "-" if peak is None else human_size(peak),
        "SPEED": _ratio(ratio) if ratio else "-",
    }


def _agreed(row: BenchmarkRow) -> str:
    if row.failure:
        return "failed"
    if row.agreement is None:
        return "-"
    return f"{'within' if row.agreement.agreed else 'no:'} {row.agreement.percent}"


def _ratio(ratio: Ratio) -> str:
    value, low, high = (
        f"{each:.2f}" if 0.1 <= each < 10 else human_number(each)
        for each in (ratio.value, ratio.low, ratio.high)
    )
    return f"{value}× ({low}–{high})"


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else human_seconds(seconds)
