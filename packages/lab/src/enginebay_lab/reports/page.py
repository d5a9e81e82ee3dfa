"""Renders the page of a report: one HTML file that contains its style, script, plots and tables.

Every text from a result is escaped for HTML. The content security policy of the page allows only
the page's own script, which a digest identifies, and forbids loading other files.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING

from enginebay_lab.reports import charts, sweep_section, tables
from enginebay_lab.reports.entries import list_benchmarks, merge_entries
from enginebay_lab.reports.facts import (
    list_failures,
    list_limits,
    list_machine_facts,
    report_title,
    summarize_report,
)
from enginebay_lab.reports.output_files import GENERATOR
from enginebay_lab.reports.reproduction import list_commands

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay_lab.reports.entries import ReportEntry
    from enginebay_lab.reports.findings import Findings


def render_page(report: Findings) -> str:
    """Return the page of a report; see :meth:`Report.to_html`."""
    from jinja2 import Environment, StrictUndefined

    # Strict: a wrong name in the template is an error, not an empty text.
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    entries = merge_entries(report)
    template = environment.from_string(_read_resource("page.html.jinja"))
    style, script = _read_resource("page.css"), _read_resource("page.js")
    # The content security policy allows the script by this digest.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return template.render(
        generator=GENERATOR,
        style=style,
        script=script,
        digest=digest,
        signs=tables.SIGNS,
        report=report,
        title=report_title(report),
        summary=list(summarize_report(report, entries)),
        sweeps=[sweep_section.describe_sweep(sweep) for sweep in report.sweeps],
        overview=tables.overview_table(entries),
        problems=[entry for entry in entries if entry.reason],
        figures=list(_draw_figures(report, entries)),
        tables=list(_make_tables(report, entries)),
        failures=list(list_failures(entries)),
        notes=list(list_limits(report, entries)),
        details=[_describe_entry(entry) for entry in entries if entry.verification],
        machine=list(list_machine_facts(report)),
        commands=list_commands(report),
    )


def _read_resource(name: str) -> str:
    return files("enginebay_lab.reports").joinpath(name).read_text(encoding="utf-8")


def _draw_figures(report: Findings, entries: list[ReportEntry]) -> Iterator[charts.Figure]:
    labels = _entry_labels(entries)
    for benchmark in list_benchmarks(report):
        yield from charts.plot_latencies(benchmark, labels)
    yield from charts.plot_accuracy_against_speed(entries)
    speeds = [(row, entry.label) for entry in entries for row in entry.speeds]
    figures = [
        charts.plot_output_errors(entries),
        *map(charts.plot_layer_errors, report.bisections),
        *map(charts.plot_layer_noise, report.sensitivities),
        *(charts.plot_layer_times(*speed) for speed in speeds),
    ]
    yield from (figure for figure in figures if figure is not None)


def _make_tables(report: Findings, entries: list[ReportEntry]) -> Iterator[tables.PageTable]:
    labels = _entry_labels(entries)
    with_calls = not tables.has_one_speed_each(entries)
    for benchmark in list_benchmarks(report):
        yield tables.speed_table(benchmark, labels, with_calls=with_calls)
    with_values = len(report.evaluations) > 1 or not any(entry.is_pytorch for entry in entries)
    for evaluation in report.evaluations:
        yield tables.accuracy_table(evaluation, labels, with_values=with_values)
    yield from map(tables.bisection_table, report.bisections)
    yield from map(tables.sensitivity_table, report.sensitivities)
    for entry in entries:
        timed = (row for row in entry.speeds if row.layers)
        yield from (tables.layer_times_table(row, entry.label) for row in timed)


def _entry_labels(entries: list[ReportEntry]) -> dict[str, str]:
    """Return the label of each artifact by the name that evaluation and benchmark rows use."""
    metric_labels = {row.artifact: entry.label for entry in entries for row in entry.metrics}
    return metric_labels | {row.name: entry.label for entry in entries for row in entry.speeds}


def _describe_entry(entry: ReportEntry) -> dict[str, object]:
    """Return the values that the page's HTML template shows about an artifact."""
    verification, manifest = entry.verification, entry.manifest
    assert verification is not None
    receipt = manifest.receipt if manifest else None
    known = verification.basis.range if verification.basis else None
    facts = [
        ("compared with", verification.reference),
        ("on", verification.extent() if verification.outputs else ""),
        ("verified range", known.describe() if known and verification.passed else ""),
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
        "outputs": tables.outputs_table(entry),
    }
