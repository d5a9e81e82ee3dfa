"""The texts of a report's page: title, summary, notes and machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from enginebay_lab.measurement.statistics import select_fastest
from enginebay_lab.reports.entries import list_benchmarks
from enginebay_lab.reports.sweep_section import summarize_sweep

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay.authors.artifacts import Manifest
    from enginebay_lab.measurement.benchmark_rows import BenchmarkRow
    from enginebay_lab.reports.entries import ReportEntry
    from enginebay_lab.reports.findings import Findings


def report_title(report: Findings) -> str:
    """Return the model's name or, if no result contains it, the names of artifact folders."""
    models = [shorten_model(result.model) for result in report.comparisons]
    models = models or [_model_name(artifact.manifest) for artifact in report.artifacts]
    models = models or [shorten_model(failure.model) for failure in report.failures]
    swept = {row.model for sweep in report.sweeps for row in sweep.rows}
    if names := list(dict.fromkeys(filter(None, models))):
        return ", ".join(names)
    if swept:
        return swept.pop() if len(swept) == 1 else f"Sweep of {len(swept)} models"
    folders = [Path(artifact.path).name for artifact in report.artifacts]
    folders += [Path(row.artifact).name for result in report.evaluations for row in result.rows]
    folders += [Path(row.artifact).name for result in report.benchmarks for row in result.rows]
    names = list(dict.fromkeys(filter(None, folders)))
    if len(names) > 3:
        return f"{names[0]} and {len(names) - 1} more"
    return ", ".join(names) or "Layers"


def _model_name(manifest: Manifest) -> str:
    """Return the name of an artifact's model; empty if the artifact does not record it."""
    if manifest.model:
        return shorten_model(manifest.model)
    described = manifest.recipe.options.get("model") if manifest.recipe else None
    return str(described[0]) if isinstance(described, list) and described else ""


def shorten_model(model: str) -> str:
    """Return a model's name without the folder that contains its file, and without its weights.

    Example:
        >>> shorten_model("/home/user/nets/resnet.py:build?weights=/home/user/weights.safetensors")
        'resnet.py:build'
        >>> shorten_model("timm:hf_hub:timm/resnet18"), shorten_model("an object of type Net")
        ('timm:hf_hub:timm/resnet18', 'Net')
    """
    name = model.partition("?weights=")[0].removeprefix("an object of type ")
    return Path(name).name if Path(name).is_absolute() else name


def summarize_report(report: Findings, entries: Sequence[ReportEntry]) -> Iterator[str]:
    """Yield the sentences at the top of the page, such as how many artifacts are verified."""
    for sweep in report.sweeps:
        yield from summarize_sweep(sweep)
    judged = [entry for entry in entries if entry.verdict]
    verified = [entry for entry in judged if entry.verdict == "verified"]
    references = {entry.verification.reference for entry in judged if entry.verification} - {""}
    against = f" against {references.pop()}" if len(references) == 1 else ""
    if judged:
        yield f"{len(verified)} of {len(judged)} verified{against}."
    yield from _describe_fastest(verified)
    yield from (bisection.reason for bisection in report.bisections if bisection.reason)
    if evaluated := [result for result in report.evaluations if result.reference]:
        data = evaluated[0].data
        yield f"Accuracy is compared with {evaluated[0].reference}, on {data.count:,} items."


def _describe_fastest(verified: Sequence[ReportEntry]) -> Iterator[str]:
    """Yield a sentence about the fastest artifact, or about several that are equally fast."""
    measured = [entry for entry in verified if entry.speeds]
    best = select_fastest([entry.speeds[0] for entry in measured])
    if len(measured) < 2 or not best or best[0].call is None:
        return
    names = {entry.speeds[0].artifact: entry.label for entry in measured}
    labels = ", ".join(names[row.artifact] for row in best)
    items = "an item" if best[0].batch == 1 else f"{best[0].batch} items"
    time = f"{best[0].describe_call()} for {items}"
    if len(best) == 1:
        yield f"The fastest verified is {labels}: {time}."
    else:
        yield f"{labels} are equally fast within the noise: {time}."


def list_limits(report: Findings, entries: Sequence[ReportEntry]) -> Iterator[str]:
    """Yield notes on how to read the measured speeds, and why they may be unreliable."""
    labels = {row.name: entry.label for entry in entries for row in entry.speeds}
    for benchmark in list_benchmarks(report):
        if any(row.ratio for row in benchmark.rows):
            baseline = labels.get(benchmark.baseline, benchmark.baseline)
            yield f"Speed is relative to {baseline}, with its 95 % interval, if both runs agreed."
        yield from benchmark.notes
    for entry in entries:
        for row in entry.speeds:
            yield from (f"{entry.label}{_describe_load(row)}: {note}" for note in row.notes)


def list_failures(entries: Sequence[ReportEntry]) -> Iterator[tuple[str, str]]:
    """Yield what could not be measured, and the reason."""
    for entry in entries:
        for row in entry.speeds:
            if row.failure:
                yield f"{entry.label}{_describe_load(row)}", row.failure


def _describe_load(row: BenchmarkRow) -> str:
    batch = f", batch {row.batch}" if row.batch > 1 else ""
    return f"{batch}, {row.threads} threads" if row.threads > 1 else batch


def list_machine_facts(report: Findings) -> Iterator[tuple[str, str]]:
    """Yield (name, value) pairs about the machines and versions, without duplicates."""
    facts: dict[tuple[str, str], None] = {}  # as an ordered set
    for machine in (benchmark.machine for benchmark in list_benchmarks(report)):
        facts |= dict.fromkeys(machine.facts())
        load = f"{machine.load:.1f} before the benchmark" if machine.load is not None else ""
        facts["load", load] = None
    for manifest in (artifact.manifest for artifact in report.artifacts):
        facts["system", manifest.platform] = None
        facts["Python", manifest.python] = None
        facts["torch", manifest.torch_version or ""] = None
        facts["Enginebay", manifest.enginebay_version] = None
    for manifest in (artifact.manifest for artifact in report.artifacts):
        receipt = manifest.receipt
        engine = f"{manifest.backend} {manifest.engine_version}"
        facts["engine", (receipt and receipt.engine) or engine] = None
        facts["device", f"{receipt.device} {receipt.device_name}".strip() if receipt else ""] = None
        facts["driver", receipt.driver if receipt else ""] = None
    # Facts with the same name together, at the place of the first.
    order = list(dict.fromkeys(name for name, _ in facts))
    yield from sorted((pair for pair in facts if pair[1]), key=lambda pair: order.index(pair[0]))
