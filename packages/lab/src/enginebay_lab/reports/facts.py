"""The facts of the page that stand in no table: its title, its summary, machine and commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.commands import human_seconds
from enginebay_lab.measurement.statistics import fastest
from enginebay_lab.reports.entries import benchmarks_of
from enginebay_lab.reports.sweep_section import summary as sweep_summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay_lab.reports.entries import Entry
    from enginebay_lab.reports.findings import Findings


def title(report: Findings) -> str:
    """The model, or else the artifacts' folders."""
    if report.comparisons:
        return report.comparisons[0].model
    if models := {row.model for sweep in report.sweeps for row in sweep.rows}:
        return models.pop() if len(models) == 1 else f"Sweep of {len(models)} models"
    folders = [Path(artifact.path).name for artifact in report.artifacts]
    folders += [Path(row.artifact).name for each in report.evaluations for row in each.rows]
    folders += [Path(row.artifact).name for each in report.benchmarks for row in each.rows]
    names = list(dict.fromkeys(filter(None, folders)))
    if len(names) > 3:
        return f"{names[0]} and {len(names) - 1} more"
    return ", ".join(names) or "Layers"


def summary(report: Findings, entries: Sequence[Entry]) -> Iterator[str]:
    """The figures that come first: how many are verified, and which is best by what."""
    for sweep in report.sweeps:
        yield from sweep_summary(sweep)
    judged = [entry for entry in entries if entry.verdict]
    verified = [entry for entry in judged if entry.verdict == "verified"]
    references = {entry.verification.reference for entry in judged if entry.verification} - {""}
    against = f" against {references.pop()}" if len(references) == 1 else ""
    if judged:
        yield f"{len(verified)} of {len(judged)} verified{against}."
    yield from _fastest(verified)
    yield from (found.reason for found in report.bisections if found.reason)
    if evaluated := [one for one in report.evaluations if one.reference]:
        yield f"Accuracy is beside {evaluated[0].reference}, on {evaluated[0].data.count:,} items."


def _fastest(verified: Sequence[Entry]) -> Iterator[str]:
    """Which of several is the fastest, or that some are equally fast, and its time for an item."""
    measured = [entry for entry in verified if entry.speeds]
    found = fastest([entry.speeds[0] for entry in measured])
    if len(measured) < 2 or not found or found[0].call is None:
        return
    names = {entry.speeds[0].artifact: entry.label for entry in measured}
    labels = ", ".join(names[row.artifact] for row in found)
    time = f"{human_seconds(found[0].call.median / found[0].batch)} for an item"
    if len(found) == 1:
        yield f"The fastest verified is {labels}: {time}."
    else:
        yield f"{labels} are equally fast within the noise: {time}."


def notes(report: Findings, entries: Sequence[Entry]) -> Iterator[str]:
    """What limits the figures of benchmarks."""
    labels = {row.name: entry.label for entry in entries for row in entry.speeds}
    for benchmark in benchmarks_of(report):
        if benchmark.baseline:
            beside = labels.get(benchmark.baseline, benchmark.baseline)
            yield f"Speed is beside {beside}, with its 95 % interval, where both agreed."
        yield from benchmark.notes
    for entry in entries:
        for row in entry.speeds:
            yield from (f"{entry.label}: {note}" for note in row.notes)


def machine(report: Findings) -> Iterator[tuple[str, str]]:
    """Where the artifacts were made and verified, each fact once."""
    found: dict[tuple[str, str], None] = {}
    for one in (benchmark.machine for benchmark in benchmarks_of(report)):
        found |= dict.fromkeys(one.facts())
        found["load", f"{one.load:.1f} before the benchmark" if one.load is not None else ""] = None
    for manifest in (artifact.manifest for artifact in report.artifacts):
        found["system", manifest.platform] = None
        found["Python", manifest.python] = None
        found["torch", manifest.torch_version or ""] = None
        found["Enginebay", manifest.enginebay_version] = None
    for manifest in (artifact.manifest for artifact in report.artifacts):
        receipt = manifest.receipt
        found["engine", f"{manifest.backend} {manifest.engine_version}"] = None
        found["device", f"{receipt.device} {receipt.device_name}".strip() if receipt else ""] = None
        found["driver", receipt.driver if receipt else ""] = None
    order = list(dict.fromkeys(name for name, _ in found))
    yield from sorted((pair for pair in found if pair[1]), key=lambda pair: order.index(pair[0]))


def commands(report: Findings) -> Iterator[tuple[str, str]]:
    """The commands that make all of it again, each with what it makes."""
    compared = [
        *(("Sweep", one.command) for one in report.sweeps),
        *((f"Compare {one.model}", one.command) for one in report.comparisons),
    ]
    made = {row.artifact for one in report.comparisons for row in one.rows}
    measured = [
        *(("Measure the speed", one.command) for one in report.benchmarks),
        *(("Evaluate", one.command) for one in report.evaluations),
    ]
    deployed = [
        (f"Deploy {Path(one.path).name}", one.manifest.command)
        for one in report.artifacts
        if one.path not in made
    ]
    shown: set[str] = set()
    for what, command in (*compared, *deployed, *measured, ("Make this report", report.command)):
        if command and command not in shown:
            shown.add(command)
            yield what, command
