"""The page: one file with its style, its script, its plots and its tables, and nothing besides.

Every text from a record is escaped. The page's policy lets no script run but its own, by its
digest, and loads nothing from anywhere.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from enginebay_lab.reports import charts, sweep_section, tables
from enginebay_lab.reports.entries import benchmarks_of, entries_of
from enginebay_lab.reports.facts import commands, machine, notes, summary, title
from enginebay_lab.reports.output_files import GENERATOR, check_packages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay_lab.reports.entries import Entry
    from enginebay_lab.reports.findings import Findings


def render(report: Findings) -> str:
    """See :meth:`Report.to_html`."""
    check_packages()
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    entries = entries_of(report)
    template = environment.from_string(_resource("page.html.jinja"))
    style, script = _resource("page.css"), _resource("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return template.render(
        generator=GENERATOR,
        style=style,
        script=script,
        digest=digest,
        signs=tables.SIGNS,
        report=report,
        title=title(report),
        summary=list(summary(report, entries)),
        sweeps=[sweep_section.parts(sweep) for sweep in report.sweeps],
        overview=tables.overview(entries),
        problems=[entry for entry in entries if entry.reason],
        figures=list(_figures(report, entries)),
        tables=list(_tables(report, entries)),
        notes=list(notes(report, entries)),
        details=[_detail(entry) for entry in entries if entry.verification],
        machine=list(machine(report)),
        commands=list(commands(report)),
    )


def _resource(name: str) -> str:
    return files("enginebay_lab.reports").joinpath(name).read_text(encoding="utf-8")


def _figures(report: Findings, entries: list[Entry]) -> Iterator[charts.Figure]:
    labels = _labels(entries)
    for benchmark in benchmarks_of(report):
        yield from charts.latencies(benchmark, labels)
    yield from charts.accuracy_against_speed(entries)
    speeds = [(row, entry.label) for entry in entries for row in entry.speeds]
    found = [
        charts.output_errors(entries),
        *map(charts.layer_errors, report.bisections),
        *map(charts.layer_noise, report.sensitivities),
        *(charts.layer_times(*speed) for speed in speeds),
    ]
    yield from (figure for figure in found if figure is not None)


def _tables(report: Findings, entries: list[Entry]) -> Iterator[tables.Table]:
    labels = _labels(entries)
    for benchmark in benchmarks_of(report):
        yield tables.speed(benchmark, labels)
    for evaluation in report.evaluations:
        yield tables.accuracy(evaluation, labels)
    yield from map(tables.places, report.bisections)
    yield from map(tables.layers, report.sensitivities)
    for entry in entries:
        yield from (tables.layer_times(row, entry.label) for row in entry.speeds if row.layers)


def _labels(entries: list[Entry]) -> dict[str, str]:
    """The entries' labels, by the names that rows of evaluations and benchmarks have."""
    named = {row.artifact: entry.label for entry in entries for row in entry.metrics}
    return named | {row.name: entry.label for entry in entries for row in entry.speeds}


def _detail(entry: Entry) -> dict[str, Any]:
    """What is known of one artifact, for who wants to know more."""
    verification, manifest = entry.verification, entry.manifest
    assert verification is not None
    receipt = manifest.receipt if manifest else None
    facts = [
        ("compared with", verification.reference),
        ("on", verification.extent() if verification.outputs else ""),
        ("its graph alone", verification.simulation.describe() if verification.simulation else ""),
        *(("limit", text) for text in verification.warnings),
        *(("signal", signal.describe()) for signal in verification.signals),
        *(("matched", matching.describe()) for matching in verification.matchings),
        ("engine", f"{receipt.engine}, {receipt.provider}".strip(", ") if receipt else ""),
        ("device", f"{receipt.device} {receipt.device_name}".strip() if receipt else ""),
        ("computes in", receipt.precision if receipt else ""),
        ("built for", manifest.built_for if manifest else ""),
        *(("ran on", run.describe()) for run in (manifest.runs if manifest else ())),
        *(("note", text) for text in entry.notes),
        ("folder", entry.artifact),
        ("made", manifest.created if manifest else ""),
    ]
    return {
        "entry": entry,
        "facts": [(name, text) for name, text in facts if text],
        "outputs": tables.outputs(entry),
    }
