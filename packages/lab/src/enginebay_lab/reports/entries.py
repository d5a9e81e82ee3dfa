"""Merges all results about an artifact into one entry of a report."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from enginebay.authors.artifacts import Manifest
from enginebay.commands import flag_values
from enginebay_lab.comparison.comparison import ComparisonRow
from enginebay_lab.evaluation.evaluation_rows import EvaluationRow
from enginebay_lab.measurement.benchmark import Benchmark
from enginebay_lab.measurement.benchmark_rows import BenchmarkRow
from enginebay_lab.shared_params import describe_params

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay.authors.arrays import OutputComparison
    from enginebay_lab.reports.findings import FailedDeployment, Findings, ReportedArtifact

_replace = msgspec.structs.replace


class ReportEntry(ComparisonRow, frozen=True, kw_only=True):
    """All results about one artifact: the fields of ``ComparisonRow`` and the attributes below.

    Attributes:
        manifest: The artifact's manifest.
        metrics: The artifact's rows in evaluations.
        speeds: The artifact's rows in benchmarks.
        label: The unique name of the artifact on the page.
    """

    precision: str = ""
    verdict: str = ""
    manifest: Manifest | None = None
    metrics: list[EvaluationRow] = []
    speeds: list[BenchmarkRow] = []
    label: str = ""

    @property
    def is_pytorch(self) -> bool:
        """True for the entry of the PyTorch model, with which a benchmark compares artifacts."""
        return self.backend == "pytorch" and self.manifest is None and not self.verdict

    @property
    def outputs(self) -> tuple[OutputComparison, ...]:
        """The comparison of each output with the reference's output."""
        return self.verification.outputs if self.verification else ()


def merge_entries(report: Findings) -> list[ReportEntry]:
    """Return an entry for each artifact's folder in a report; PyTorch's entry is the first."""
    rows = [row for comparison in report.comparisons for row in comparison.rows]
    entries = [ReportEntry(**msgspec.structs.asdict(row)) for row in rows]
    for artifact in report.artifacts:
        at = _find_entry(entries, artifact.path, artifact.manifest.backend)
        entries[at] = _add_manifest(entries[at], artifact)
    for metric in (row for evaluation in report.evaluations for row in evaluation.rows):
        entries[_find_entry(entries, metric.artifact, metric.backend)].metrics.append(metric)
    for speed in (row for benchmark in report.benchmarks for row in benchmark.rows):
        at = _find_entry(entries, speed.artifact or speed.name, speed.backend)
        entries[at].speeds.append(speed)
        precision = entries[at].precision or speed.precision
        entries[at] = _replace(entries[at], precision=precision)
    for entry in entries:
        if entry.speed and not entry.speeds:  # a benchmark's longer measurement is preferred
            entry.speeds.append(entry.speed)
    entries += map(_failed_entry, report.failures)
    return sorted(_add_labels(entries), key=lambda entry: not entry.is_pytorch)


def list_benchmarks(report: Findings) -> list[Benchmark]:
    """Return a report's benchmarks, and a benchmark for the speeds that only a comparison has."""
    benchmarks = list(report.benchmarks)
    measured = {row.artifact for benchmark in benchmarks for row in benchmark.rows}
    for comparison in report.comparisons:
        rows = tuple(
            row.speed
            for row in comparison.rows
            if row.speed and not measured & {row.artifact, row.speed.artifact}
        )
        if rows and comparison.machine:
            first = next((row.name for row in rows if row.call), "")
            benchmarks.append(
                Benchmark(
                    rows=rows,
                    machine=comparison.machine,
                    baseline=first if len(rows) > 1 else "",
                    notes=comparison.notes,
                )
            )
    return benchmarks


def _failed_entry(failure: FailedDeployment) -> ReportEntry:
    words = shlex.split(failure.command)
    backend, precision = (
        (flag_values(flag, words) or [""])[-1] for flag in ("--backend", "--precision")
    )
    return ReportEntry(
        backend=backend or Path(failure.path).stem,
        precision=precision,
        verdict=failure.verdict,
        reason=failure.reason,
        hint=failure.hint,
        verification=failure.verification,
    )


def _add_manifest(entry: ReportEntry, artifact: ReportedArtifact) -> ReportEntry:
    """Return the entry with the artifact's manifest, size and verdict."""
    # The verdict of a comparison may be older.
    manifest = artifact.manifest
    verdict = manifest.verification.verdict if manifest.verification else "unverified"
    requested = manifest.requested_precision
    effective = manifest.receipt.precision if manifest.receipt else ""
    return _replace(
        entry,
        manifest=manifest,
        size=artifact.size,
        verification=manifest.verification,
        verdict=verdict,
        reason="" if verdict == "verified" else _verdict_reason(manifest),
        precision=entry.precision or requested or effective,
    )


def _verdict_reason(manifest: Manifest) -> str:
    verification = manifest.verification
    return verification.summary() if verification else "it was not compared with its model"


def _find_entry(entries: list[ReportEntry], path: str, backend: str) -> int:
    """Return the index of the entry for the artifact in the folder ``path``.

    If no entry or several entries match, a new entry is appended.
    """
    absolute = str(Path(path).absolute())
    folders = [(n, entry.artifact) for n, entry in enumerate(entries) if entry.artifact]
    same = [n for n, folder in folders if folder == absolute]
    # A relative path in a record matches the end of an absolute path.
    same = same or [n for n, folder in folders if _share_end(folder, path)]
    if len(same) == 1:
        return same[0]
    entries.append(ReportEntry(backend=backend, artifact=path))
    return len(entries) - 1


def _share_end(one: str, other: str) -> bool:
    first, second = Path(one).parts, Path(other).parts
    length = min(len(first), len(second))
    return bool(length) and first[-length:] == second[-length:]


def _add_labels(entries: list[ReportEntry]) -> list[ReportEntry]:
    """Return the entries with labels: backend, precision, parameters; the folder if not unique."""
    plain = [
        "PyTorch"
        if entry.is_pytorch
        else f"{entry.backend} {entry.precision_text}".rstrip() + describe_params(entry.params)
        for entry in entries
    ]
    folders = [
        f" ({_unique_path_end(entry.artifact, entries)})"
        if plain.count(text) > 1 and entry.artifact
        else ""
        for entry, text in zip(entries, plain, strict=True)
    ]
    parts = zip(entries, plain, folders, strict=True)
    return [_replace(entry, label=text + folder) for entry, text, folder in parts]


def _unique_path_end(path: str, entries: list[ReportEntry]) -> str:
    """Return the shortest end of ``path`` with which no path of another entry ends."""
    others = [
        Path(entry.artifact).parts for entry in entries if entry.artifact and entry.artifact != path
    ]
    ends: Iterator[tuple[str, ...]] = (
        Path(path).parts[-n:] for n in range(1, len(Path(path).parts) + 1)
    )
    return next(
        (str(Path(*end)) for end in ends if not any(o[-len(end) :] == end for o in others)), path
    )
