"""Draws plots as SVG with pygal; their colours and fonts come from the page's style sheet."""

from __future__ import annotations

import math
import re
import sys
from typing import TYPE_CHECKING, Any

from enginebay.commands import human_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from xml.etree.ElementTree import Element

    from pygal.graph.graph import Graph

#: A phone shows a plot of this width at 3/4 of its size, where labels of 13 pixels are readable.
WIDTH_PIXELS = 480
_FONT_PIXELS = 13
#: The number of steps that fit at an axis.
_MAX_AXIS_STEPS = 7
#: Durations with a larger ratio are shown on a logarithmic axis.
_LOGARITHMIC_RATIO = 8
#: pygal's names of the quantiles of a box. It gets only the calls between 5 % and 95 %.
_QUANTILE_NAMES = {"Min": "5 %", "Q1": "25 %", "Q2": "50 %", "Q3": "75 %", "Max": "95 %"}
_QUANTILE_PATTERN = re.compile(r"^(Min|Q[123]|Max) ?(?=:)", re.MULTILINE)
_SVG_NAMESPACE = "{http://www.w3.org/2000/svg}"


def import_pygal() -> Any:
    """Import and return pygal; remove the finder that pygal adds to ``sys.meta_path``."""
    import pygal

    # Python warns about such a finder on each later import of a missing module.
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != "pygal"]
    return pygal


def draw_bars(
    labels: Sequence[str],
    series: dict[str, list[float | None]],
    text: Callable[[float], str],
    *,
    logarithmic: bool = True,
) -> str:
    """Return an SVG with a bar for each label and series; ``text`` formats a bar's value."""
    pygal = import_pygal()  # horizontal bars, which leave space for long labels

    chart = pygal.HorizontalBar(
        **_chart_settings(),
        height=70 + len(labels) * max(26, 16 * len(series)),
        logarithmic=logarithmic,
        show_y_labels=logarithmic,  # otherwise the values next to the bars are enough
        value_formatter=text,
        print_values=True,
        print_values_position="top",
        margin_right=70,
    )
    if logarithmic:
        ends, chart.y_labels = _axis_decades([v for row in series.values() for v in row if v])
        chart.range, chart.zero = ends, ends[0]
    # pygal draws the first bar at the bottom.
    chart.x_labels = [_shorten_label(label) for label in reversed(labels)]
    for name, values in series.items():
        chart.add(name, list(reversed(values)))
    return _render_svg(chart)


def draw_boxes(labels: Sequence[str], durations: Sequence[Sequence[float]]) -> str:
    """Return an SVG with a vertical box plot for each sequence of sorted durations."""
    pygal = import_pygal()

    low = min(times[0] for times in durations)
    high = max(times[-1] for times in durations)
    is_wide = high > _LOGARITHMIC_RATIO * low
    chart = pygal.Box(
        **_chart_settings(),
        margin_right=40,
        height=300,
        logarithmic=is_wide,
        value_formatter=_format_axis_seconds,
        x_label_rotation=0 if len(labels) < 3 else 25 if len(labels) < 6 else 50,
    )
    if is_wide:
        chart.y_labels = steps = _axis_steps(low, high)
        chart.range = (min(low, steps[0]), max(high, steps[-1]))
        chart.zero = steps[0]
    chart.x_labels = [_shorten_label(label) for label in labels]
    for label, times in zip(labels, durations, strict=True):
        chart.add(label, list(times))
    return _render_svg(chart)


def draw_scatter(dots: Sequence[tuple[str, float, float]]) -> str:
    """Return an SVG with a numbered dot for each (name, duration, value)."""
    pygal = import_pygal()

    # Numbers, which the legend explains: names would overlap.
    seconds, values = [dot[1] for dot in dots], [dot[2] for dot in dots]
    chart = pygal.XY(
        **_chart_settings(),
        height=300,
        stroke=False,
        dots_size=5,
        print_labels=True,
        x_value_formatter=_format_axis_seconds,
        value_formatter=lambda value: f"{value:.4g}",
        xrange=(0.0, max(seconds) * 1.1),
        range=_padded_range(values),
    )
    for count, (label, duration, value) in enumerate(dots, 1):
        chart.add(label, [{"value": (duration, value), "label": str(count)}])
    return _render_svg(chart)


def _padded_range(values: Sequence[float]) -> tuple[float, float]:
    """Return the range of values, extended by a margin at both ends."""
    low, high = min(values), max(values)
    margin = 0.2 * (high - low) or 0.1 * abs(high) or 1.0  # all values may be the same, or 0
    return low - margin, high + margin


def _format_axis_seconds(seconds: float) -> str:
    """Format a duration; omit the decimals if all of them are zeros."""
    return re.sub(r"\.0+ ", " ", human_seconds(seconds))


def _axis_steps(low: float, high: float) -> list[float]:
    """Return the labels of a logarithmic axis from at most ``low`` to at least ``high``.

    The labels are powers of ten times 1, 2 and 5; if these are too many, times 1 and 3; if these
    are too many as well, only powers of ten.

    Example:
        >>> _axis_steps(0.3, 4)
        [0.2, 0.5, 1.0, 2.0, 5.0]
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        steps = [float(f"{factor}e{power}") for power in powers for factor in factors]
        # The logarithm of a number just below a power of ten is rounded to this power.
        first = max((n for n, step in enumerate(steps) if step <= low), default=0)
        last = min((n for n, step in enumerate(steps) if step >= high), default=len(steps) - 1)
        if last - first < _MAX_AXIS_STEPS:
            break
    return steps[first : last + 1]


def _axis_decades(values: Sequence[float]) -> tuple[tuple[float, float], list[float]]:
    """Return the two ends of a logarithmic axis, which are powers of ten, and at most six labels.

    Example:
        >>> _axis_decades([2e-7, 0.02])
        ((1e-07, 0.1), [1e-07, 1e-05, 0.001, 0.1])
    """
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)  # all values may be the same power of ten
    step = max(1, math.ceil((high - low) / 5))
    labels = [float(f"1e{power}") for power in range(low, high + 1, step)]
    return (float(f"1e{low}"), float(f"1e{high}")), labels


def _chart_settings() -> dict[str, object]:
    """Return the settings of pygal that all plots share."""
    pygal = import_pygal()

    return {
        # By default a plot loads pygal's script from the network.
        "js": [],
        "css": [],
        # pygal computes margins from these fonts, although the page's style sheet sets its own.
        "style": pygal.style.Style(
            font_family="monospace",
            label_font_size=_FONT_PIXELS,
            major_label_font_size=_FONT_PIXELS,
            value_font_size=_FONT_PIXELS,
            value_label_font_size=_FONT_PIXELS,
        ),
        "width": WIDTH_PIXELS,
        "show_legend": False,
        "margin": 8,
        "no_prefix": True,
        "max_scale": 6,
        "truncate_label": -1,
    }


def _shorten_label(label: str) -> str:
    # The end of the label, where the names of layers differ.
    return label if len(label) <= 26 else f"…{label[-25:]}"


def _render_svg(chart: Graph) -> str:
    """Return the SVG of a chart, without pygal's scripts, styles and dates.

    The page has its own style sheet, and the same report must always produce the same page.
    """
    from xml.etree import ElementTree as ET

    # Through text: if lxml is installed, pygal's tree is lxml's, which ElementTree does not accept.
    root = ET.fromstring(chart.render(is_unicode=True))  # noqa: S314  # pygal wrote it just now
    for parent in list(root.iter()):
        for child in list(parent):
            if _tag_name(child) == "defs":
                parent.remove(child)
        _set_title(parent)
    for child in list(root):
        if _tag_name(child) == "title":
            root.remove(child)
    root.attrib.pop("id", None)  # it is random
    root.set("role", "img")
    # ElementTree writes SVG's namespace as a prefix, which a browser does not know in HTML.
    for node in root.iter():
        node.tag = _tag_name(node)
    root.set("xmlns", _SVG_NAMESPACE.strip("{}"))
    return ET.tostring(root, encoding="unicode")


def _set_title(node: Element) -> None:
    """Replace pygal's ``desc`` elements of a bar or a dot by one ``title`` element (a tooltip)."""
    from xml.etree import ElementTree as ET

    # A browser shows a title as a tooltip; the descriptions are for pygal's script.
    texts = []
    for child in list(node):
        if _tag_name(child) == "desc":
            node.remove(child)
            if child.get("class") in ("value", "label", "x_label"):
                texts.append(
                    _QUANTILE_PATTERN.sub(lambda match: _QUANTILE_NAMES[match[1]], child.text or "")
                )
    if texts:
        title = ET.Element("title")
        title.text = ": ".join(filter(None, reversed(texts)))
        node.insert(0, title)


def _tag_name(node: Element) -> str:
    return str(node.tag).removeprefix(_SVG_NAMESPACE)
