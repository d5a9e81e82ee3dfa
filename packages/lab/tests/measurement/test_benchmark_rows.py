"""The words of an agreement, and rows that travel as documents."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

import enginebay_lab as lab
from enginebay.authors import Latency
from enginebay_lab.measurement.benchmark_rows import Agreement, Window


def agreement(apart: float, seconds: float, *, agreed: bool = False) -> Agreement:
    return Agreement(agreed=agreed, apart=apart, wanted=0.02, windows=9, seconds=seconds)


@pytest.mark.parametrize(
    ("apart", "percent"),
    [
        (0.0, "0 %"),
        (0.0141, "1.4 %"),
        (0.0999, "10 %"),
        (0.1, "10 %"),
        (0.155, "16 %"),
        (9, "900 %"),
    ],
)
def test_percents(apart: float, percent: str) -> None:
    assert agreement(apart, 1.0).percent == percent


@pytest.mark.parametrize(
    ("seconds", "after"), [(0.0123, "0.012 s"), (1.25, "1.2 s"), (9.96, "10 s"), (29.6, "30 s")]
)
def test_durations(seconds: float, after: str) -> None:
    assert agreement(0.01, seconds, agreed=True).describe() == f"agreed within 1 % after {after}"


@given(st.floats(0, 1e6), st.floats(0, 1e5), st.booleans())
def test_an_agreement_is_a_short_text_without_exponents(
    apart: float, seconds: float, agreed: bool
) -> None:
    text = agreement(apart, seconds, agreed=agreed).describe()
    assert text.startswith("agreed" if agreed else "not agreed within 2 % after ")
    assert len(text) < 70


def measured_row(calls: list[float], share: float = 0.5, **given: Any) -> lab.BenchmarkRow:
    call, engine = Latency.of(calls), Latency.of([share * call for call in calls])
    fields: dict[str, Any] = {"batch": 1, "threads": 1, "agreement": agreement(0.01, 1.0), **given}
    return lab.BenchmarkRow(name="net", backend="b", call=call, engine=engine, **fields)


def describe(row: lab.BenchmarkRow) -> list[str]:
    return [row.describe_call(), row.describe_engine(), row.describe_items_per_second()]


def test_items_per_second_are_the_reciprocal_of_a_call() -> None:
    assert describe(measured_row([0.002] * 300)) == ["2.00 ms", "1.00 ms", "500"]
    more = measured_row([0.002] * 300, batch=8, threads=4)
    assert describe(more) == ["2.00 ms", "1.00 ms", "16,000"]
    assert more.describe_calls_per_second() == "2,000"


def test_figures_of_a_busy_machine_are_ranges() -> None:
    """A few calls that the system interrupted took most of the time."""
    interrupted = measured_row([20e-6] * 290 + [3e-3] * 10)
    assert describe(interrupted) == [
        "20.0 µs – 119 µs",
        "10.0 µs – 59.7 µs",
        "8,380 – 50,000",
    ]
    apart = measured_row([0.001, 0.0011, 0.0012] * 10, agreement=agreement(0.2, 1.0))
    assert describe(apart)[::2] == ["1.00 ms – 1.20 ms", "833 – 1,000"]


def test_figures_of_a_row_that_was_not_measured_are_dashes() -> None:
    assert describe(lab.BenchmarkRow(name="net", backend="b", batch=1, threads=1)) == ["-"] * 3


def test_a_row_of_a_failure_keeps_its_windows() -> None:
    window = Window(round=0, calls=3, median=0.1, engine=0.05, calls_per_second=10.0)
    row = lab.BenchmarkRow(
        name="net", backend="b", batch=1, threads=1, windows=(window,), failure="it crashed"
    )
    document = json.loads(msgspec.json.encode(row))
    assert document["windows"] == [
        {"round": 0, "calls": 3, "median": 0.1, "engine": 0.05, "calls_per_second": 10.0}
    ]
    assert (document["call"], document["ratio"], document["failure"]) == (None, None, "it crashed")
    assert msgspec.convert(document, lab.BenchmarkRow) == row
