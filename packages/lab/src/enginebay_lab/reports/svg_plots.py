"""Plots as SVG: geometry by pygal, colours and fonts by the page's own style sheet."""

from __future__ import annotations

import math
import re
import sys
from typing import TYPE_CHECKING, Any

from enginebay.commands import human_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

#: Pixels of a plot. A phone shows it at 3/4 of that, so that labels of 13 px can be read there.
WIDTH = 480
_FONT = 13
#: As many steps as can be written at an axis.
_STEPS = 7
#: Durations that lie farther apart than this factor are shown on a logarithmic axis.
_WIDE = 8
#: pygal's names of what a box shows, and what they are of the values that it is given here.
_QUANTILES = {"Min": "5 %", "Q1": "25 %", "Q2": "50 %", "Q3": "75 %", "Max": "95 %"}
_QUARTILE = re.compile(r"^(Min|Q[123]|Max) ?(?=:)", re.MULTILINE)
_SVG = "{http://www.w3.org/2000/svg}"


def import_pygal() -> Any:
    """Import pygal, without the finder that it adds to ``sys.meta_path``.

    Python warns of finders of its kind at each later import of what is not there.
    """
    import pygal

    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != "pygal"]
    return pygal


def bars(
    labels: Sequence[str],
    series: dict[str, list[float | None]],
    text: Any,
    *,
    logarithmic: bool = True,
) -> str:
    """Horizontal bars, so that their labels can be long."""
    pygal = import_pygal()

    chart = pygal.HorizontalBar(
        **_settings(),
        height=70 + len(labels) * max(26, 16 * len(series)),
        logarithmic=logarithmic,
        show_y_labels=logarithmic,  # each bar has its value beside it
        value_formatter=text,
        print_values=True,
        print_values_position="top",
        margin_right=70,
    )
    if logarithmic:
        ends, chart.y_labels = _decades([v for each in series.values() for v in each if v])
        chart.range, chart.zero = ends, ends[0]
    # pygal draws the first at the bottom.
    chart.x_labels = [_short(label) for label in reversed(labels)]
    for name, values in series.items():
        chart.add(name, list(reversed(values)))
    return _drawing(chart)


def boxes(labels: Sequence[str], durations: Sequence[Sequence[float]]) -> str:
    """A box for each of some sorted durations, upwards."""
    pygal = import_pygal()

    low = min(each[0] for each in durations)
    high = max(each[-1] for each in durations)
    wide = high > _WIDE * low
    chart = pygal.Box(
        **_settings(),
        margin_right=40,
        height=300,
        logarithmic=wide,
        value_formatter=_axis_seconds,
        x_label_rotation=0 if len(labels) < 3 else 25 if len(labels) < 6 else 50,
    )
    if wide:
        chart.y_labels = steps = _steps(low, high)
        chart.range = (min(low, steps[0]), max(high, steps[-1]))
        chart.zero = steps[0]
    chart.x_labels = [_short(label) for label in labels]
    for label, each in zip(labels, durations, strict=True):
        chart.add(label, list(each))
    return _drawing(chart)


def scatter(dots: Sequence[tuple[str, float, float]]) -> str:
    """Dots with their numbers in the legend: names would cover one another."""
    pygal = import_pygal()

    seconds, values = [dot[1] for dot in dots], [dot[2] for dot in dots]
    chart = pygal.XY(
        **_settings(),
        height=300,
        stroke=False,
        dots_size=5,
        print_labels=True,
        x_value_formatter=_axis_seconds,
        value_formatter=lambda value: f"{value:.4g}",
        xrange=(0.0, max(seconds) * 1.1),
        range=_around(values),
    )
    for count, (label, duration, value) in enumerate(dots, 1):
        chart.add(label, [{"value": (duration, value), "label": str(count)}])
    return _drawing(chart)


def _around(values: Sequence[float]) -> tuple[float, float]:
    """The range of some values and a margin, also where all of them are the same."""
    low, high = min(values), max(values)
    margin = 0.2 * (high - low) or 0.1 * abs(high) or 1.0
    return low - margin, high + margin


def _axis_seconds(seconds: float) -> str:
    """A duration without zeros behind the point."""
    return re.sub(r"\.0+ ", " ", human_seconds(seconds))


def _steps(low: float, high: float) -> list[float]:
    """The numbers 1, 2 and 5 and their tenfolds, or only the tenfolds of 1, around two values.

    Example:
        >>> _steps(0.3, 4)
        [0.2, 0.5, 1.0, 2.0, 5.0]
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        steps = [float(f"{factor}e{power}") for power in powers for factor in factors]
        first = max(n for n, step in enumerate(steps) if step <= low)
        last = min((n for n, step in enumerate(steps) if step >= high), default=len(steps) - 1)
        if last - first < _STEPS:
            break
    return steps[first : last + 1]


def _decades(values: Sequence[float]) -> tuple[tuple[float, float], list[float]]:
    """The powers of ten around some values, and at most six of them to write at the axis.

    Example:
        >>> _decades([2e-7, 0.02])
        ((1e-07, 0.1), [1e-07, 1e-05, 0.001, 0.1])
    """
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    step = max(1, math.ceil((high - low) / 5))
    labels = [float(f"1e{power}") for power in range(low, high + 1, step)]
    return (float(f"1e{low}"), float(f"1e{high}")), labels


def _settings() -> dict[str, Any]:
    """What all plots have: nothing that is loaded, and margins for this font."""
    pygal = import_pygal()

    return {
        "js": [],
        "css": [],
        "style": pygal.style.Style(
            font_family="monospace",
            label_font_size=_FONT,
            major_label_font_size=_FONT,
            value_font_size=_FONT,
            value_label_font_size=_FONT,
        ),
        "width": WIDTH,
        "show_legend": False,
        "margin": 8,
        "no_prefix": True,
        "max_scale": 6,
        "truncate_label": -1,
    }


def _short(label: str) -> str:
    """The end of a long label: layers differ there."""
    return label if len(label) <= 26 else f"…{label[-25:]}"


def _drawing(chart: Any) -> str:
    """The SVG of a chart, without what pygal adds for a page of its own.

    Scripts, styles and dates go: the page has its own style sheet, and the same report always
    gives the same page. What pygal's script would show in a tooltip becomes a title, which a
    browser shows by itself.
    """
    from xml.etree import ElementTree as ET

    # As text: the tree is lxml's where that is installed, which the standard library does not take.
    root = ET.fromstring(chart.render(is_unicode=True))  # noqa: S314  # pygal wrote it just now
    for parent in list(root.iter()):
        for child in list(parent):
            if _tag(child) == "defs":
                parent.remove(child)
        _title(parent)
    for child in list(root):
        if _tag(child) == "title":
            root.remove(child)
    root.attrib.pop("id", None)
    root.set("role", "img")
    return ET.tostring(root, encoding="unicode").replace("ns0:", "").replace(":ns0", "")


def _title(node: Element) -> None:
    """Make one title of the descriptions of a bar or a dot."""
    from xml.etree import ElementTree as ET

    texts = []
    for child in list(node):
        if _tag(child) == "desc":
            node.remove(child)
            if child.get("class") in ("value", "label", "x_label"):
                texts.append(_QUARTILE.sub(lambda found: _QUANTILES[found[1]], child.text or ""))
    if texts:
        title = ET.Element("title")
        title.text = ": ".join(filter(None, reversed(texts)))
        node.insert(0, title)


def _tag(node: Element) -> str:
    return str(node.tag).removeprefix(_SVG)
