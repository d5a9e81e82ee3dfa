"""The tables of the page, as texts with what they are sorted by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from enginebay.commands import human_error, human_number, human_seconds, human_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from enginebay.authors import OutputComparison
    from enginebay_lab.diagnosis.bisection import Bisection
    from enginebay_lab.diagnosis.rank_layers import Sensitivity
    from enginebay_lab.evaluation.evaluation_rows import Evaluation, EvaluationRow
    from enginebay_lab.measurement.benchmark import Benchmark
    from enginebay_lab.measurement.benchmark_rows import BenchmarkRow, Ratio
    from enginebay_lab.reports.entries import Entry


#: The sign of each verdict, so that none is known by its colour alone.
SIGNS = {
    "verified": "✓",
    "mismatched": "≠",
    "unverified": "?",
    "crashed": "!",
    "failed": "✗",
    "lost": "∅",
}


class TableCell(NamedTuple):
    """One cell.

    Attributes:
        text: What is shown; empty for nothing.
        key: The number that it is sorted by; None for its text.
        kind: ``verdict`` for a badge, ``sign`` for a small one, ``number``, or empty.
    """

    text: str
    key: float | None = None
    kind: str = ""


class Table(NamedTuple):
    """A table.

    Attributes:
        caption: What it shows.
        columns: The headers.
        rows: A cell for each column.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[TableCell]]


def number(value: float | None, text: Callable[[Any], str]) -> TableCell:
    """A cell that is sorted by its number."""
    return TableCell("" if value is None else text(value), value, "number")


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[TableCell]]) -> Table:
    """Make a table of the columns that have something to show."""
    listed = list(rows)
    shown = [n for n in range(len(columns)) if any(row[n].text for row in listed)]
    kept = [[row[n] for n in shown] for row in listed]
    return Table(caption, [columns[n] for n in shown], kept)


def overview(entries: Sequence[Entry]) -> Table:
    """A row for each artifact, with every metric that it was evaluated by."""
    metrics = list(dict.fromkeys(row.metric for entry in entries for row in entry.metrics))
    columns = (
        *("Backend", "Verdict", "Max error", *metrics),
        *("Call", "Items/s", "Speed", "Size", "Deployed in"),
    )
    reference = {row.metric: row.reference for entry in entries for row in entry.metrics}
    return table(
        "All artifacts", columns, [_overview_row(entry, metrics, reference) for entry in entries]
    )


def _overview_row(
    entry: Entry, metrics: Sequence[str], reference: dict[str, float | None]
) -> list[TableCell]:
    values = {row.metric: row for row in entry.metrics}
    found = [metric_cell(values.get(name)) for name in metrics]
    if entry.is_pytorch:
        found = [number(reference[name], _figure) for name in metrics]
    speed = entry.speeds[0] if entry.speeds else None
    return [
        TableCell(entry.label),
        TableCell(entry.verdict, kind="verdict"),
        number(entry.max_abs_error, human_error),
        *found,
        number(speed.call.median if speed and speed.call else None, human_seconds),
        number(speed.items_per_second if speed else None, human_number),
        number(speed.ratio.value if speed and speed.ratio else None, _times),
        number(entry.size, human_size),
        number(entry.seconds or None, lambda seconds: f"{seconds:.1f} s"),
    ]


def metric_cell(row: EvaluationRow | None) -> TableCell:
    """The value of a metric; an artifact that was lost has none."""
    if row is None:
        return TableCell("", kind="number")
    return TableCell("lost") if row.error else number(row.value, _figure)


def speed(benchmark: Benchmark, labels: dict[str, str]) -> Table:
    """A row for each artifact, batch and number of threads."""
    columns = (
        *("Backend", "Batch", "Threads", "Call", "95 % interval", "Engine", "P90", "P99"),
        *("Items/s", "Speed", "Load", "First call", "Memory", "Windows", "Failed"),
    )
    several = [len({getattr(row, n) for row in benchmark.rows}) > 1 for n in ("batch", "threads")]
    return table(
        "Speed",
        columns,
        [_speed_row(row, labels.get(row.name, row.name), several) for row in benchmark.rows],
    )


def _speed_row(row: BenchmarkRow, label: str, several: Sequence[bool]) -> list[TableCell]:
    call, engine = row.call, row.engine
    return [
        TableCell(label),
        number(row.batch if several[0] else None, str),
        number(row.threads if several[1] else None, str),
        number(call.median if call else None, human_seconds),
        TableCell(f"{human_seconds(call.low)} – {human_seconds(call.high)}" if call else ""),
        number(engine.median if engine else None, human_seconds),
        number(call.p90 if call else None, human_seconds),
        number(call.p99 if call else None, human_seconds),
        number(row.items_per_second, human_number),
        _ratio(row.ratio),
        number(row.load, human_seconds),
        number(row.first, human_seconds),
        number(row.peak_memory, human_size),
        TableCell(row.agreement.describe() if row.agreement else ""),
        TableCell(row.failure),
    ]


def _ratio(ratio: Ratio | None) -> TableCell:
    if ratio is None:
        return TableCell("", kind="number")
    interval = f"({human_number(ratio.low)}–{human_number(ratio.high)})"
    return TableCell(f"{_times(ratio.value)} {interval}", ratio.value, "number")


def _times(ratio: float) -> str:
    return f"{human_number(ratio)}×"


def outputs(entry: Entry) -> Table:
    """A row for each output of an artifact."""
    return table(
        f"Outputs of {entry.label}",
        ("Output", "Agrees", "Max error", "Relative", "Places off", "Worst place", "Tolerance", ""),
        [_output_row(one) for one in entry.outputs],
    )


def _output_row(one: OutputComparison) -> list[TableCell]:
    off = f"{one.mismatched_count:,} of {one.total:,}"
    return [
        TableCell(one.name),
        TableCell("yes" if one.passed else "no"),
        number(one.max_abs_error, human_error),
        number(one.max_rel_error, human_error),
        number(one.mismatched_count, lambda _: off),
        TableCell(_place(one.worst_index, one.worst_expected, one.worst_found)),
        TableCell(f"rtol {human_error(one.rtol)}, atol {human_error(one.atol)}"),
        TableCell(one.reason),
    ]


def _place(index: tuple[int, ...] | None, expected: str, found: str) -> str:
    if index is None:
        return ""
    return f"[{', '.join(map(str, index))}]: {found} for {expected}"


def accuracy(evaluation: Evaluation, labels: dict[str, str]) -> Table:
    """A row for each artifact and metric."""
    return table(
        "Accuracy",
        (
            *("Backend", "Metric", "Value", "PyTorch", "Drop", "Items", "Decides alike"),
            *("Worst items", "Lost"),
        ),
        [
            (
                TableCell(labels.get(row.artifact, row.artifact)),
                TableCell(row.metric),
                number(row.value, _figure),
                number(row.reference, _figure),
                number(row.drop, _figure),
                number(row.count, lambda count: f"{count:,}"),
                number(row.agreement, lambda share: f"{share:.2%}"),
                TableCell(", ".join(str(one.item) for one in row.worst[:3])),
                TableCell(row.error),
            )
            for row in evaluation.rows
        ],
    )


def layers(found: Sensitivity) -> Table:
    """A row for each layer of an 8-bit engine, the costliest first."""
    return table(
        f"Layers of {found.backend} {found.precision}",
        ("Layer", "Operator", "Signal above noise"),
        [
            (
                TableCell(node.node),
                TableCell(node.operator),
                number(node.decibels, lambda decibels: f"{decibels:.1f} dB"),
            )
            for node in found.nodes
        ],
    )


def places(found: Bisection) -> Table:
    """A row for each call of a module, in the order in which they end."""
    return table(
        "Error of each layer",
        ("Module", "Through the engine", "Alone", "Wrong"),
        [
            (
                TableCell(place.title),
                number(place.accumulated, human_error),
                number(place.alone, human_error),
                TableCell(
                    "alone" if place.wrong_alone else "through the engine" if place.wrong else ""
                ),
            )
            for place in found.places
        ],
    )


def layer_times(row: BenchmarkRow, label: str) -> Table:
    """A row for each layer of an engine, in the order in which they run."""
    return table(
        f"Time of each layer of {label}",
        ("Layer", "Operator", "Time", "Share", "Modules"),
        [
            (
                TableCell(layer.name),
                TableCell(layer.operator),
                number(layer.seconds, human_seconds),
                number(layer.share, lambda share: f"{share:.1%}"),
                TableCell(", ".join(layer.modules)),
            )
            for layer in row.layers
        ],
    )


def _figure(value: float) -> str:
    return f"{value:.4g}"
