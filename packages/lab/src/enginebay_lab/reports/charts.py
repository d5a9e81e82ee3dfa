"""The plots of the page: what each of them shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from enginebay.commands import human_error, human_seconds
from enginebay_lab.reports.svg_plots import bars, boxes, scatter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay_lab.diagnosis.bisection import Bisection, Place
    from enginebay_lab.diagnosis.rank_layers import Sensitivity
    from enginebay_lab.measurement.benchmark import Benchmark
    from enginebay_lab.measurement.benchmark_rows import BenchmarkRow
    from enginebay_lab.reports.entries import Entry

#: As many bars as fit on a page; the worst are shown.
_MOST = 20
#: As many as a row of a benchmark has: from 0 % to 100 %.
_QUANTILES = 101


class Figure(NamedTuple):
    """A plot.

    Attributes:
        title: What it shows.
        svg: The drawing.
        legend: The series' names, by the numbers of their colours; empty for an only one.
        note: How to read it.
    """

    title: str
    svg: str
    legend: Sequence[str] = ()
    note: str = ""


def latencies(benchmark: Benchmark, labels: dict[str, str]) -> Iterator[Figure]:
    """The distribution of the calls' durations, a plot for each batch and number of threads."""
    groups: dict[tuple[int, int], list[BenchmarkRow]] = {}
    for row in benchmark.rows:
        if len(row.quantiles) == _QUANTILES and row.quantiles[0] > 0:
            groups.setdefault((row.batch, row.threads), []).append(row)
    for (batch, threads), rows in groups.items():
        where = f", batch {batch}, {threads} threads" if len(groups) > 1 else ""
        yield Figure(
            f"Latency{where}",
            boxes(
                [labels.get(row.name, row.name) for row in rows],
                [row.quantiles[5:96] for row in rows],
            ),
            note="The box holds the middle half of the calls, with the median as its line; the "
            "whiskers reach from 5 % to 95 % of them.",
        )


def accuracy_against_speed(entries: Sequence[Entry]) -> Iterator[Figure]:
    """A dot for each engine, a plot for each metric that was evaluated beside a benchmark."""
    metrics = dict.fromkeys(row.metric for entry in entries for row in entry.metrics)
    for metric in metrics:
        dots = sorted(_dots(entries, metric), key=lambda dot: dot[1])
        if len(dots) > 1:
            legend = [
                f"{count} {label}: {human_seconds(seconds)}, {value:.4g}"
                for count, (label, seconds, value) in enumerate(dots, 1)
            ]
            yield Figure(
                f"{metric[0].upper()}{metric[1:]} against speed",
                scatter(dots),
                legend,
                f"The duration of a call for one item to the right, {metric} upwards.",
            )


def _dots(entries: Sequence[Entry], metric: str) -> Iterator[tuple[str, float, float]]:
    """The name, the seconds and the value of each; PyTorch's value stands in the others' rows."""
    rows = {entry.label: row for entry in entries for row in entry.metrics if row.metric == metric}
    reference = next((row.reference for row in rows.values()), None)
    for entry in entries:
        own = rows.get(entry.label)
        value = own.value if own else reference if entry.is_pytorch else None
        first = entry.speeds[0] if entry.speeds else None
        if value is not None and first and first.call and first.batch > 0:
            yield entry.label, first.call.median / first.batch, value


def output_errors(entries: Sequence[Entry]) -> Figure | None:
    """The largest error of each output, on every engine; None where nothing was compared."""
    compared = [entry for entry in entries if entry.verification and entry.verification.outputs]
    worst: dict[str, float] = {}
    for entry in compared:
        for one in entry.outputs:
            worst[one.name] = max(worst.get(one.name, 0.0), one.max_abs_error or 0.0)
    if not any(error > 0 for error in worst.values()):
        return None
    names = sorted(worst, key=worst.__getitem__, reverse=True)[: max(1, _MOST // len(compared))]
    series = {name: [_error(entry, name) for entry in compared] for name in names}
    note = "The largest absolute difference from the reference, on a logarithmic axis"
    if left_out := len(worst) - len(names):
        note += f"; {left_out} outputs with smaller errors are not shown"
    if any(one.max_abs_error == 0 for entry in compared for one in entry.outputs):
        note += "; an output without a bar is exact"
    drawn = bars([entry.label for entry in compared], series, human_error)
    return Figure("Error of each output", drawn, names if len(names) > 1 else (), f"{note}.")


def _error(entry: Entry, output: str) -> float | None:
    """None for an error of 0 too: a logarithmic axis has no place for it."""
    return next((_positive(one.max_abs_error) for one in entry.outputs if one.name == output), None)


def _positive(value: float | None) -> float | None:
    return value if value and value > 0 else None


def layer_noise(found: Sensitivity) -> Figure | None:
    """The signal above the noise with one layer alone in 8 bits, of the costliest layers."""
    nodes = [node for node in found.nodes if node.decibels is not None][:_MOST]
    if not nodes:
        return None
    return Figure(
        f"Error of each layer: {found.backend} {found.precision}",
        bars(
            [node.node for node in nodes],
            {"dB": [node.decibels for node in nodes]},
            lambda value: f"{value:.0f} dB",
            logarithmic=False,
        ),
        note="The output's signal above its noise with this layer alone in 8 bits: the shorter, "
        "the costlier.",
    )


def layer_errors(found: Bisection) -> Figure | None:
    """The error at each module around the first that is wrong; None where none was measured."""
    places = _around(found)
    through = [_positive(place.accumulated) for place in places]
    alone = [_positive(place.alone) for place in places]
    if not any(through) and not any(alone):
        return None
    return Figure(
        "Error of each layer",
        bars([place.title for place in places], {"through": through, "alone": alone}, human_error),
        ("through the engine, from the input", "alone, fed with the reference's tensors"),
        "The largest absolute difference from the reference, on a logarithmic axis, in the order "
        "in which the modules end. A layer that is off alone is a culprit, the others its victims.",
    )


def _around(found: Bisection) -> Sequence[Place]:
    """As many places as fit, with the culprit or the first wrong one in the middle."""
    wrong = [n for n, place in enumerate(found.places) if place.wrong]
    own = [n for n in wrong if found.places[n].module == found.module]
    first = max(0, (own or wrong or [0])[0] - _MOST // 2)
    return found.places[first : first + _MOST]


def layer_times(row: BenchmarkRow, label: str) -> Figure | None:
    """The time of the slowest layers of an engine; None where it times none."""
    slowest = sorted(row.layers, key=lambda layer: layer.seconds, reverse=True)[:_MOST]
    if not slowest:
        return None
    return Figure(
        f"Time of each layer: {label}",
        bars(
            [", ".join(layer.modules) or layer.name for layer in slowest],
            {"time": [layer.seconds for layer in slowest]},
            human_seconds,
            logarithmic=False,
        ),
        note="The median of a layer's runs, while the engine's profiler watched, by the modules "
        "that it computes"
        + (f"; the slowest {_MOST} of {len(row.layers)}." if len(row.layers) > _MOST else "."),
    )
