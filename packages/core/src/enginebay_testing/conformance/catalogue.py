"""A backend's row of the catalogue of backends, and its badge, from a report of the kit."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay_testing.conformance.report import Report

#: The columns of a row.
COLUMNS = ("backend", "install", "Enginebay", "engine", "laws", "operators")

#: What the outcome of a network of one operator is called in a row.
_RESULTS = {"held": "verified", "skipped": "refused", "broken": "neither"}


def badge(report: Report) -> dict[str, object]:
    """Return the badge of a report, as an endpoint of shields.io.

    Example:
        >>> from enginebay_testing.conformance.report import Report
        >>> badge(Report(backend="myengine"))["color"]  # laws have not run
        'yellow'
    """
    left = _count_left_laws(report)
    colour = "red" if report.counts["broken"] else "yellow" if left else "brightgreen"
    message = f"laws: {_describe_report(report)}"
    return {"schemaVersion": 1, "label": "enginebay", "message": message, "color": colour}


def _count_left_laws(report: Report) -> int:
    from enginebay_testing.conformance.suite import laws

    return len({law.name for law in laws()} - {finding.law for finding in report.findings})


def _describe_report(report: Report) -> str:
    left = _count_left_laws(report)
    return describe_laws(report.counts) + (f", {left} not run" if left else "")


def row_cells(report: Report) -> list[str]:
    """Return the cells of the row, by :data:`COLUMNS`."""
    name = f"[{report.backend}]({report.home})" if report.home else report.backend
    laws, operators = _describe_report(report), describe_operators(count_operators(report))
    install = f"`{report.distribution}`" if report.distribution else ""
    return [name, install, report.core.replace(",", ", "), report.engine_version, laws, operators]


def describe_laws(counts: Mapping[str, int]) -> str:
    """Return the number of passed laws, and of those that apply, from counts by outcome.

    Example:
        >>> describe_laws({"held": 68, "skipped": 2})
        '68 of 68'
    """
    return f"{counts.get('held', 0)} of {sum(counts.values()) - counts.get('skipped', 0)}"


def count_operators(report: Report) -> dict[str, int]:
    """Return the number of operators by outcome; empty if the engine cannot run."""
    counts = Counter(str(finding.outcome) for finding in report.operators)
    return dict(counts) if counts["held"] or counts["broken"] else {}


def describe_operators(counts: Mapping[str, int]) -> str:
    """Return the results of operators, from counts by outcome.

    Example:
        >>> describe_operators({"held": 304, "broken": 1})
        '304 verified, 1 neither'
    """
    return ", ".join(f"{counts[key]} {text}" for key, text in _RESULTS.items() if key in counts)
