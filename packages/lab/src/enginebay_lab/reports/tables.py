"""Makes the tables of a report's page; each table cell has a text and a sort key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from enginebay.commands import human_error, human_number, human_seconds, human_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from enginebay.authors import Latency
    from enginebay.authors.arrays import OutputComparison
    from enginebay_lab.diagnosis.bisection import Bisection
    from enginebay_lab.diagnosis.rank_layers import Sensitivity
    from enginebay_lab.evaluation.evaluation_rows import Evaluation, EvaluationRow
    from enginebay_lab.measurement.benchmark import Benchmark
    from enginebay_lab.measurement.benchmark_rows import BenchmarkRow, Ratio
    from enginebay_lab.reports.entries import ReportEntry


#: The sign of each verdict, so that colour is never the only difference.
SIGNS = {
    "verified": "✓",
    "mismatched": "≠",
    "unverified": "?",
    "crashed": "!",
    "failed": "✗",
    "lost": "∅",
}


class TableCell(NamedTuple):
    """A cell of a table.

    Attributes:
        text: The text of the cell; may be empty.
        key: The number to sort by; None to sort by the text.
        kind: How the page shows the text: ``verdict`` as a badge, ``sign`` as a small badge,
            ``number`` aligned to the right; empty for plain text.
    """

    text: str
    key: float | None = None
    kind: str = ""


class PageTable(NamedTuple):
    """A table of the page.

    Attributes:
        caption: The text above the table.
        columns: The headers of the columns.
        rows: The rows; each has a cell for each column.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[TableCell]]


def number_cell(value: float | None, text: Callable[[Any], str]) -> TableCell:
    """Return a table cell that shows a number and is sorted by it; an empty cell for None."""
    return TableCell("" if value is None else text(value), value, "number")


def make_table(
    caption: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[TableCell]],
    hidden: Sequence[str] = (),
) -> PageTable:
    """Return a table of the rows, without hidden columns and those that are empty in all rows."""
    listed = list(rows)
    shown = [
        n
        for n, column in enumerate(columns)
        if column not in hidden and any(row[n].text for row in listed)
    ]
    cells = [[row[n] for n in shown] for row in listed]
    return PageTable(caption, [columns[n] for n in shown], cells)


def measured_cell(latency: Latency | None, text: str) -> TableCell:
    """Return a table cell with a duration's text, sorted by its median; empty if there is none."""
    return number_cell(latency.median if latency else None, lambda _: text)


def has_one_speed_each(entries: Sequence[ReportEntry]) -> bool:
    """Return true if no artifact was measured twice, as with several batch sizes.

    The overview then shows the calls, and otherwise the tables of speeds, but never both.
    """
    return all(len(entry.speeds) <= 1 for entry in entries)


def overview_table(entries: Sequence[ReportEntry]) -> PageTable:
    """Return a table with a row for each artifact, and a column for each metric."""
    metrics = list(dict.fromkeys(row.metric for entry in entries for row in entry.metrics))
    columns = (
        *("Backend", "Verdict", "Max error", *metrics),
        *("Call", "Speed", "Size", "Deployed in"),
    )
    reference = {row.metric: row.reference for entry in entries for row in entry.metrics}
    shows_speed = has_one_speed_each(entries)
    return make_table(
        "All artifacts",
        columns,
        [_overview_row(entry, metrics, reference, shows_speed) for entry in entries],
    )


def _overview_row(
    entry: ReportEntry,
    metrics: Sequence[str],
    reference: dict[str, float | None],
    shows_speed: bool,
) -> list[TableCell]:
    values = {row.metric: row for row in entry.metrics}
    metric_cells = [metric_cell(values.get(name)) for name in metrics]
    if entry.is_pytorch:
        metric_cells = [number_cell(reference[name], _format_figure) for name in metrics]
    speed = entry.speeds[0] if entry.speeds and shows_speed else None
    return [
        TableCell(entry.label),
        TableCell(entry.verdict, kind="verdict"),
        number_cell(entry.max_abs_error, human_error),
        *metric_cells,
        measured_cell(speed.call, speed.describe_call()) if speed else number_cell(None, str),
        _ratio_cell(speed.ratio if speed else None),
        number_cell(entry.size, human_size),
        number_cell(entry.seconds or None, lambda seconds: f"{seconds:.1f} s"),
    ]


def metric_cell(row: EvaluationRow | None) -> TableCell:
    """Return a table cell with a metric's value, or ``lost`` if the evaluation failed."""
    if row is None:
        return TableCell("", kind="number")
    return TableCell("lost") if row.error else number_cell(row.value, _format_figure)


def speed_table(
    benchmark: Benchmark, labels: dict[str, str], *, with_calls: bool = True
) -> PageTable:
    """Return a table with a row for each artifact, batch and number of threads.

    Args:
        benchmark: The measured rows.
        labels: The artifacts' labels by the rows' names.
        with_calls: False to leave out the columns that the overview shows.
    """
    columns = (
        *("Backend", "Batch", "Threads", "Call", "Interval of the call", "Engine", "P90", "P99"),
        *("Items/s", "Speed", "Load", "First call", "Memory", "Windows agree"),
    )
    several = [len({getattr(row, n) for row in benchmark.rows}) > 1 for n in ("batch", "threads")]
    hidden = () if with_calls else ("Call", "Speed")
    rows = [_speed_row(row, labels.get(row.name, row.name), several) for row in benchmark.rows]
    return make_table("Speed", columns, rows, hidden)


def _speed_row(row: BenchmarkRow, label: str, several: Sequence[bool]) -> list[TableCell]:
    call = row.call
    return [
        TableCell(label),
        number_cell(row.batch if several[0] else None, str),
        number_cell(row.threads if several[1] else None, str),
        measured_cell(call, row.describe_call()),
        measured_cell(call, _format_interval(call) if call else ""),
        measured_cell(row.engine, row.describe_engine()),
        number_cell(call.p90 if call else None, human_seconds),
        number_cell(call.p99 if call else None, human_seconds),
        number_cell(
            row.items_per_second if call else None, lambda _: row.describe_items_per_second()
        ),
        _ratio_cell(row.ratio),
        number_cell(row.load, human_seconds),
        number_cell(row.first, human_seconds),
        number_cell(row.peak_memory, human_size),
        _agreement_cell(row),
    ]


def _format_interval(latency: Latency) -> str:
    return f"{human_seconds(latency.low)} – {human_seconds(latency.high)}"


def _agreement_cell(row: BenchmarkRow) -> TableCell:
    agreement = row.agreement
    if row.failure or agreement is None:
        return TableCell("failed" if row.failure else "", kind="number")
    text = f"within {agreement.percent}" if agreement.agreed else f"no: {agreement.percent}"
    return TableCell(text, agreement.apart, "number")


def _ratio_cell(ratio: Ratio | None) -> TableCell:
    if ratio is None:
        return TableCell("", kind="number")
    interval = f"({human_number(ratio.low)}–{human_number(ratio.high)})"
    return TableCell(f"{_format_times(ratio.value)} {interval}", ratio.value, "number")


def _format_times(ratio: float) -> str:
    return f"{human_number(ratio)}×"


def outputs_table(entry: ReportEntry) -> PageTable:
    """Return a table with a row for each output of an artifact."""
    return make_table(
        f"Outputs of {entry.label}",
        (
            *("Output", "Agrees", "Max error", "Relative", "Mismatches", "Worst entry"),
            *("Tolerance", "Reason"),
        ),
        [_output_row(output) for output in entry.outputs],
    )


def _output_row(output: OutputComparison) -> list[TableCell]:
    off = f"{output.mismatched_count:,} of {output.total:,}"
    return [
        TableCell(output.name),
        TableCell("yes" if output.passed else "no"),
        number_cell(output.max_abs_error, human_error),
        number_cell(output.max_rel_error, human_error),
        number_cell(output.mismatched_count, lambda _: off),  # sorted by the count alone
        TableCell(_format_worst(output.worst_index, output.worst_expected, output.worst_found)),
        TableCell(f"rtol {human_error(output.rtol)}, atol {human_error(output.atol)}"),
        # A reason that only counts the mismatches is a column already.
        TableCell("" if output.reason == f"{off} elements differ" else output.reason),
    ]


def _format_worst(index: tuple[int, ...] | None, expected: str, found: str) -> str:
    if index is None:
        return ""
    return f"[{', '.join(map(str, index))}]: {found} for {expected}"


def accuracy_table(
    evaluation: Evaluation, labels: dict[str, str], *, with_values: bool = True
) -> PageTable:
    """Return a table with a row for each artifact and metric.

    Args:
        evaluation: The evaluated rows.
        labels: The artifacts' labels by their folders.
        with_values: False to leave out the columns that the overview shows.
    """
    metrics = list(dict.fromkeys(row.metric for row in evaluation.rows))
    hidden = () if with_values else ("Value", "PyTorch")
    return make_table(
        f"Accuracy: {metrics[0]}" if len(metrics) == 1 else "Accuracy",
        (
            *("Backend", "Metric", "Value", "PyTorch", "Drop", "Items", "Agreement"),
            *("Worst items", "Lost"),
        ),
        [
            (
                TableCell(labels.get(row.artifact, row.artifact)),
                TableCell(row.metric if len(metrics) > 1 else ""),
                number_cell(row.value, _format_figure),
                number_cell(row.reference, _format_figure),
                number_cell(row.drop, _format_figure),
                number_cell(row.count, lambda count: f"{count:,}"),
                number_cell(row.agreement, lambda share: f"{share:.2%}"),
                TableCell(", ".join(str(worst.item) for worst in row.worst[:3])),
                TableCell(row.error),
            )
            for row in evaluation.rows
        ],
        hidden,
    )


def sensitivity_table(sensitivity: Sensitivity) -> PageTable:
    """Return a table with a row for each layer of an 8-bit engine, the largest error first."""
    return make_table(
        f"Layers of {sensitivity.backend} {sensitivity.precision}",
        ("Layer", "Operator", "Signal-to-noise ratio"),
        [
            (
                TableCell(node.node),
                TableCell(node.operator),
                number_cell(node.decibels, lambda decibels: f"{decibels:.1f} dB"),
            )
            for node in sensitivity.nodes
        ],
    )


def bisection_table(bisection: Bisection) -> PageTable:
    """Return a table with a row for each call of a module, in the order in which the calls end."""
    return make_table(
        "Error of each layer",
        ("Module", "Accumulated", "Alone", "Wrong"),
        [
            (
                TableCell(place.title),
                number_cell(place.accumulated, human_error),
                number_cell(place.alone, human_error),
                TableCell("alone" if place.wrong_alone else "accumulated" if place.wrong else ""),
            )
            for place in bisection.places
        ],
    )


def layer_times_table(row: BenchmarkRow, label: str) -> PageTable:
    """Return a table with a row for each layer of an engine, in the order of execution."""
    return make_table(
        f"Time of each layer of {label}",
        ("Layer", "Operator", "Time", "Share", "Modules"),
        [
            (
                TableCell(layer.name),
                TableCell(layer.operator),
                number_cell(layer.seconds, human_seconds),
                number_cell(layer.share, lambda share: f"{share:.1%}"),
                TableCell(", ".join(layer.modules)),
            )
            for layer in row.layers
        ],
    )


def _format_figure(value: float) -> str:
    return f"{value:.4g}"
