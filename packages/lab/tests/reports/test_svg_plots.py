"""The drawings of a page: any figures can be drawn, and the axes contain them."""

from __future__ import annotations

import math
import re
import sys
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings, strategies as st

from enginebay.commands import human_error, human_seconds
from enginebay_lab.reports.svg_plots import (
    WIDTH_PIXELS,
    _axis_decades,
    _axis_steps,
    draw_bars,
    draw_boxes,
    draw_scatter,
    import_pygal,
)

positive = st.floats(1e-12, 1e12)


def texts(svg: str, tag: str = "text") -> list[str]:
    """The texts of a drawing, which must be well-formed."""
    return ["".join(node.itertext()) for node in nodes(svg, tag)]


def nodes(svg: str, tag: str) -> list[ET.Element]:
    return list(ET.fromstring(svg).iter(f"{{http://www.w3.org/2000/svg}}{tag}"))


@settings(max_examples=100)
@given(positive, st.floats(1, 1e9))
def test_the_steps_of_an_axis_contain_its_values(low: float, ratio: float) -> None:
    steps = _axis_steps(low, low * ratio)
    assert steps == sorted(set(steps))
    assert steps[0] <= low * (1 + 1e-9)
    assert steps[-1] >= low * ratio * (1 - 1e-9)
    assert len(steps) <= 12


@pytest.mark.parametrize("power", range(-12, 7))
def test_the_steps_of_an_axis_begin_below_a_power_of_ten(power: int) -> None:
    for low in (
        math.nextafter(10.0**power, 0.0),
        10.0**power,
        math.nextafter(10.0**power, math.inf),
    ):
        steps = _axis_steps(low, 20 * low)
        assert steps[0] <= low * (1 + 1e-9)
        assert steps[-1] >= 20 * low * (1 - 1e-9)


@settings(max_examples=100)
@given(st.lists(positive, min_size=1, max_size=5))
def test_decades_contain_the_values_and_have_at_most_six_labels(values: list[float]) -> None:
    (low, high), labels = _axis_decades(values)
    assert low < high
    assert low <= min(values) * (1 + 1e-9)
    assert high >= max(values) * (1 - 1e-9)
    assert 1 <= len(labels) <= 6
    assert labels[0] == low


@pytest.mark.parametrize("value", [1.0, 0.001, 10.0, 0.5])
def test_bars_of_equal_values_are_drawn(value: float) -> None:
    svg = draw_bars(["a", "b"], {"y": [value, value]}, human_error)
    assert texts(svg).count(human_error(value)) >= 2
    widths = {float(node.get("width", 0)) for node in nodes(svg, "rect")}
    assert max(width for width in widths if width < WIDTH_PIXELS * 0.8) > 20


def test_bars_have_their_labels_values_and_tooltips() -> None:
    svg = draw_bars(["openvino", "ncnn"], {"y": [1e-3, 0.02], "z": [None, 1e-6]}, human_error)
    assert {"openvino", "ncnn"} <= set(texts(svg))
    assert {"0.001", "0.02", "10⁻⁶"} <= set(texts(svg))
    assert any("ncnn" in title and "0.02" in title for title in texts(svg, "title"))


def test_bars_without_a_logarithm_begin_at_zero() -> None:
    svg = draw_bars(["a"], {"dB": [41.0]}, lambda value: f"{value:.0f} dB", logarithmic=False)
    assert "41 dB" in texts(svg)


def test_long_labels_keep_their_ends() -> None:
    svg = draw_bars(["backbone.stages.2.blocks.11.attention.qkv"], {"y": [1.0]}, human_error)
    assert "…locks.11.attention.qkv"[-20:] in " ".join(texts(svg))
    assert "backbone.stages" not in " ".join(texts(svg))


@pytest.mark.parametrize(
    "durations",
    [[[1e-3] * 91], [[1e-6] * 90 + [50.0], [2e-3] * 91], [[0.5 + n / 91 for n in range(91)]] * 7],
    ids=["equal", "wide", "seven"],
)
def test_boxes_of_any_durations_are_drawn(durations: list[list[float]]) -> None:
    svg = draw_boxes([f"engine {number}" for number in range(len(durations))], durations)
    assert "NaN" not in svg
    titles = texts(svg, "title")
    assert all(any(f"engine {n}" in title for title in titles) for n in range(len(durations)))
    assert any("95 %: " in title for title in titles)


@pytest.mark.parametrize(
    "dots",
    [
        [(1e-3, 0.9), (2e-3, 0.95)],
        [(1e-3, 0.0), (1e-3, 0.0)],
        [(1e-9, -5.0), (100.0, 1e6), (1.0, 3.0)],
    ],
    ids=["usual", "equal", "wide"],
)
def test_dots_are_numbered(dots: list[tuple[float, float]]) -> None:
    svg = draw_scatter([(f"engine {n}", *dot) for n, dot in enumerate(dots)])
    assert {str(n) for n in range(1, len(dots) + 1)} <= set(texts(svg))
    assert "NaN" not in svg


@pytest.mark.parametrize("label", ["<b>&\"'", "ns0:conv", "a:ns0", "層", "{}", "%s"])
def test_labels_are_text_whatever_they_contain(label: str) -> None:
    svg = draw_bars([label], {"y": [0.5]}, human_error)
    assert label in texts(svg)
    assert label in " ".join(texts(svg, "title"))


def test_the_same_figures_make_the_same_drawing_without_scripts() -> None:
    one, two = (draw_bars(["a"], {"y": [0.5]}, human_seconds) for _ in range(2))
    assert one == two
    assert "<script" not in one
    assert "<style" not in one
    assert not re.findall(r"https?://(?!www\.w3\.org)", one)
    assert 'role="img"' in one


def test_pygal_leaves_no_finder_in_python() -> None:
    import_pygal()
    assert not [finder for finder in sys.meta_path if type(finder).__module__ == "pygal"]
