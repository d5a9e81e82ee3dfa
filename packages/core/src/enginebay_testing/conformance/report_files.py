"""Files of a report of the kit: JSON, Markdown with tables, and a badge."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from enginebay_testing.conformance import catalogue
from enginebay_testing.conformance.report import operator_groups

if TYPE_CHECKING:
    from pathlib import Path

    from enginebay_testing.conformance.report import Finding, Report


def write_report(report: Report, folder: Path) -> None:
    """Write ``BACKEND.json``, ``BACKEND.md`` and ``BACKEND-badge.json`` into a folder."""
    document = msgspec.to_builtins(report) | {"counts": dict(report.counts)}
    text = msgspec.json.format(msgspec.json.encode(document)) + b"\n"
    (folder / f"{report.backend}.json").write_bytes(text)
    (folder / f"{report.backend}.md").write_text(markdown(report), encoding="utf-8")
    badge = msgspec.json.encode(catalogue.badge(report)) + b"\n"
    (folder / f"{report.backend}-badge.json").write_bytes(badge)


def markdown(report: Report) -> str:
    """Return Markdown with a badge, the versions, the row of the catalogue and a table of tests."""
    colour = "red" if report.counts["broken"] else "brightgreen"
    counts = ", ".join(f"{number} {outcome}" for outcome, number in report.counts.items())
    # shields.io shows an underscore as a blank.
    badge = f"https://img.shields.io/badge/enginebay_conformance-{counts}-{colour}"
    engine = f", engine {report.engine_version}" if report.engine_version else ""
    laws: dict[str, list[Finding]] = {}
    for finding in report.findings:
        laws.setdefault(finding.law, []).append(finding)
    versions = (
        f"{report.distribution} {report.version}{engine}, enginebay {report.enginebay}, "
        f"Python {report.python}, {report.platform}"
    )
    return "\n".join(
        [
            f"![enginebay conformance: {counts}]({badge.replace(' ', '_').replace(',', '%2C')})",
            "",
            versions,
            "",
            f"| {' | '.join(catalogue.COLUMNS)} |",
            "|---" * len(catalogue.COLUMNS) + "|",
            f"| {' | '.join(catalogue.row_cells(report))} |",
            "",
            "| about | law | outcome | why not |",
            "|---|---|---|---|",
            *map(_law_row, laws.values()),
            "",
            *_operator_table(report),
        ]
    )


def _operator_table(report: Report) -> list[str]:
    if not report.operators:
        return []
    rows = []
    for group, results in operator_groups(report).items():
        verified, *others = results.values()
        # A bar would end the cell of the table.
        cells = (", ".join(f"`{name}`" for name in names).replace("|", "\\|") for names in others)
        rows.append(f"| {group} | {len(verified)} | {' | '.join(cells)} |")
    return ["| operators | verified | refused | not verified |", "|---|---|---|---|", *rows, ""]


def _law_row(findings: list[Finding]) -> str:
    counts = Counter(finding.outcome for finding in findings)
    outcome = ", ".join(f"{number} {name}" for name, number in counts.items())
    reasons = dict.fromkeys(finding.reason for finding in findings if finding.reason)
    first = findings[0]
    cells = (first.family, first.sentence, outcome if len(findings) > 1 else first.outcome)
    return f"| {' | '.join(cells)} | {'; '.join(reasons)} |".replace("\n", " ")
