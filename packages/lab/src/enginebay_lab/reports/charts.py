"""Makes the plots of a report's page from the results in the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from enginebay.commands import human_error, human_seconds
from enginebay_lab.reports.svg_plots import draw_bars, draw_boxes, draw_scatter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay_lab.diagnosis.bisection import Bisection, Place
    from enginebay_lab.diagnosis.rank_layers import Sensitivity
    from enginebay_lab.measurement.benchmark import Benchmark
    from enginebay_lab.measurement.benchmark_rows import BenchmarkRow
    from enginebay_lab.reports.entries import ReportEntry

#: The number of bars that fit on a page.
_MAX_BARS = 20
#: The number of colours of the page.
_COLOURS = 8
#: The number of quantiles in a row of a benchmark: from 0 % to 100 %.
_QUANTILES = 101


class Figure(NamedTuple):
    """A plot of a report's page.

    Attributes:
        title: The heading above the plot.
        svg: The drawing, as an SVG element.
        legend: The names of the series, in the order of their colours; empty for a single series.
        note: The caption, which explains how to read the plot.
    """

    title: str
    svg: str
    legend: Sequence[str] = ()
    note: str = ""


def plot_latencies(benchmark: Benchmark, labels: dict[str, str]) -> Iterator[Figure]:
    """Yield a box plot of latencies for each batch size and number of threads."""
    groups: dict[tuple[int, int], list[BenchmarkRow]] = {}
    for row in benchmark.rows:
        # A logarithmic axis cannot show 0.
        if len(row.quantiles) == _QUANTILES and row.quantiles[0] > 0:
            groups.setdefault((row.batch, row.threads), []).append(row)
    for (batch, threads), rows in groups.items():
        where = f", batch {batch}, {threads} threads" if len(groups) > 1 else ""
        yield Figure(
            f"Latency{where}",
            draw_boxes(
                [labels.get(row.name, row.name) for row in rows],
                [row.quantiles[5:96] for row in rows],  # without outliers
            ),
            note="The box contains the middle half of the durations, and its line is the median; "
            "the whiskers reach from the 5th to the 95th percentile.",
        )


def plot_accuracy_against_speed(entries: Sequence[ReportEntry]) -> Iterator[Figure]:
    """Yield a plot for each metric: the artifacts' values of the metric against their speeds."""
    metrics = dict.fromkeys(row.metric for entry in entries for row in entry.metrics)
    for metric in metrics:
        dots = sorted(_find_dots(entries, metric), key=lambda dot: dot[1])
        if len(dots) > 1:
            legend = [
                f"{count} {label}: {human_seconds(seconds)}, {value:.4g}"
                for count, (label, seconds, value) in enumerate(dots, 1)
            ]
            yield Figure(
                f"{metric[0].upper()}{metric[1:]} against speed",
                draw_scatter(dots),
                legend,
                "Horizontal axis: the median duration of a call, for one item. Vertical axis: "
                f"{metric}.",
            )


def _find_dots(entries: Sequence[ReportEntry], metric: str) -> Iterator[tuple[str, float, float]]:
    """Yield the label, the seconds per item and the metric's value of each report entry."""
    rows = {entry.label: row for entry in entries for row in entry.metrics if row.metric == metric}
    # PyTorch has no row: the rows of the artifacts contain its value.
    reference = next((row.reference for row in rows.values()), None)
    for entry in entries:
        row = rows.get(entry.label)
        value = row.value if row else reference if entry.is_pytorch else None
        first = entry.speeds[0] if entry.speeds else None
        if value is not None and first and first.call and first.batch > 0:
            yield entry.label, first.call.median / first.batch, value


def plot_output_errors(entries: Sequence[ReportEntry]) -> Figure | None:
    """Return a plot of each output's largest error on each engine; None if all are exact."""
    compared = [entry for entry in entries if entry.verification and entry.verification.outputs]
    worst: dict[str, float] = {}
    for entry in compared:
        for output in entry.outputs:
            error = output.max_abs_error or 0.0
            worst[output.name] = max(worst.get(output.name, 0.0), error)
    if not any(error > 0 for error in worst.values()):
        return None
    # Each output has a bar for each engine, and a colour if there are several engines.
    most = _MAX_BARS if len(compared) == 1 else min(_COLOURS, max(1, _MAX_BARS // len(compared)))
    names = sorted(worst, key=worst.__getitem__, reverse=True)[:most]
    series = {name: [_find_error(entry, name) for entry in compared] for name in names}
    labels, legend = [entry.label for entry in compared], names if len(names) > 1 else []
    if len(compared) == 1 and legend:
        errors = [error for (error,) in series.values()]
        labels, legend, series = names, [], {labels[0]: errors}
    note = "The largest absolute difference from the reference, on a logarithmic axis"
    if left_out := len(worst) - len(names):
        note += f"; {left_out} outputs with smaller errors are not shown"
    if any(output.max_abs_error == 0 for entry in compared for output in entry.outputs):
        note += "; an output without a bar is exact"
    drawn = draw_bars(labels, series, human_error)
    return Figure("Error of each output", drawn, legend, f"{note}.")


def _find_error(entry: ReportEntry, output: str) -> float | None:
    errors = {compared.name: compared.max_abs_error for compared in entry.outputs}
    return _positive_or_none(errors.get(output))


def _positive_or_none(value: float | None) -> float | None:
    return value if value and value > 0 else None  # a logarithmic axis cannot show 0


def plot_layer_noise(sensitivity: Sensitivity) -> Figure | None:
    """Return a plot of the errors that single layers cause; None if nothing was measured.

    The plot has a bar for each of the worst layers: the output's signal-to-noise ratio when only
    this layer computes in 8 bits.
    """
    nodes = [node for node in sensitivity.nodes if node.decibels is not None][:_MAX_BARS]
    if not nodes:
        return None
    return Figure(
        f"Error of each layer: {sensitivity.backend} {sensitivity.precision}",
        draw_bars(
            [node.node for node in nodes],
            {"dB": [node.decibels for node in nodes]},
            lambda value: f"{value:.0f} dB",
            logarithmic=False,
        ),
        note="The output's signal-to-noise ratio with only this layer in 8 bits. The shorter the "
        "bar, the larger the error.",
    )


def plot_layer_errors(bisection: Bisection) -> Figure | None:
    """Return a plot of the errors of the modules around the wrong one; None if all are 0."""
    places = _select_places(bisection)
    through = [_positive_or_none(place.accumulated) for place in places]
    alone = [_positive_or_none(place.alone) for place in places]
    if not any(through) and not any(alone):
        return None
    return Figure(
        "Error of each layer",
        draw_bars(
            [place.title for place in places], {"through": through, "alone": alone}, human_error
        ),
        ("accumulated from the model's input", "alone, on the layer's inputs in the reference"),
        "The largest absolute difference from the reference, on a logarithmic axis, in the order "
        "in which the modules end. A layer that is wrong alone causes the errors after it.",
    )


def _select_places(bisection: Bisection) -> Sequence[Place]:
    """Return the results of the modules around the wrong module.

    The wrong module is the one that the bisection names as the cause or, if it names none, the
    first one with a wrong output.
    """
    wrong = [n for n, place in enumerate(bisection.places) if place.wrong]
    causes = [n for n in wrong if bisection.places[n].module == bisection.module]
    first = max(0, (causes or wrong or [0])[0] - _MAX_BARS // 2)
    return bisection.places[first : first + _MAX_BARS]


def plot_layer_times(row: BenchmarkRow, label: str) -> Figure | None:
    """Return a plot of the times of an engine's slowest layers; None if no layer was timed."""
    slowest = sorted(row.layers, key=lambda layer: layer.seconds, reverse=True)[:_MAX_BARS]
    if not slowest:
        return None
    return Figure(
        f"Time of each layer: {label}",
        draw_bars(
            [", ".join(layer.modules) or layer.name for layer in slowest],
            {"time": [layer.seconds for layer in slowest]},
            human_seconds,
            logarithmic=False,
        ),
        note="The median duration of each layer in the engine's profiler; a layer is labelled with "
        "the modules that it computes"
        + (
            f"; the slowest {_MAX_BARS} of {len(row.layers)}."
            if len(row.layers) > _MAX_BARS
            else "."
        ),
    )
