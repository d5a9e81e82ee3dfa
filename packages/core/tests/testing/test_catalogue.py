"""A report of the kit makes a row of the catalogue and a badge."""

from __future__ import annotations

import msgspec
import pytest

from enginebay_testing.conformance.catalogue import badge, row_cells
from enginebay_testing.conformance.report import Finding, Outcome, Report
from enginebay_testing.conformance.report_files import markdown
from enginebay_testing.conformance.suite import laws


def a_report(**outcomes: int) -> Report:
    """Return a report in which all laws ran; the first have these outcomes, the others held."""
    said: list[Outcome] = []
    for outcome, number in outcomes.items():
        said += [msgspec.convert(outcome, Outcome)] * number
    said += ["held"] * (len(laws()) - len(said))
    findings = [
        Finding(
            family="f", law=law.name, case="", sentence="", outcome=each, reason="", seconds=0.0
        )
        for law, each in zip(laws(), said, strict=True)
    ]
    return Report(backend="mine", distribution="enginebay-mine", findings=findings)


ALL = len(laws())


@pytest.mark.parametrize(
    ("outcomes", "message", "colour"),
    [
        ({}, f"laws: {ALL} of {ALL}", "brightgreen"),
        ({"skipped": 3}, f"laws: {ALL - 3} of {ALL - 3}", "brightgreen"),
        ({"skipped": 3, "excused": 1}, f"laws: {ALL - 4} of {ALL - 3}", "brightgreen"),
        ({"skipped": 3, "broken": 2}, f"laws: {ALL - 5} of {ALL - 3}", "red"),
    ],
)
def test_the_badge_counts_the_laws_that_apply(
    outcomes: dict[str, int], message: str, colour: str
) -> None:
    found = badge(a_report(**outcomes))
    assert (found["message"], found["color"]) == (message, colour)


def test_a_part_of_the_laws_is_no_green_badge() -> None:
    report = a_report()
    del report.findings[10:]
    assert badge(report)["message"] == f"laws: 10 of 10, {ALL - 10} not run"
    assert badge(report)["color"] == "yellow"
    assert row_cells(report)[4] == f"10 of 10, {ALL - 10} not run"


def test_the_row_has_the_columns_of_the_catalogue() -> None:
    report = a_report(broken=1)
    report.core, report.home, report.engine_version = "<1,>=0.1", "https://x.y/z", "3.1"
    found = [("held", 7), ("skipped", 2), ("broken", 1)]
    report.operators = [
        msgspec.structs.replace(
            report.findings[0], outcome=outcome, family="operators", case="a: b"
        )
        for outcome, number in found
        for _ in range(number)
    ]
    assert row_cells(report) == [
        *("[mine](https://x.y/z)", "`enginebay-mine`", "<1, >=0.1", "3.1"),
        *(f"{ALL - 1} of {ALL}", "7 verified, 2 refused, 1 neither"),
    ]
    assert f"| {' | '.join(row_cells(report))} |" in markdown(report)
