"""One entry for each artifact: what the records of a report say about it, brought together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from enginebay.authors import Manifest
from enginebay_lab.comparison.comparison import ComparisonRow
from enginebay_lab.evaluation.evaluation_rows import EvaluationRow
from enginebay_lab.measurement.benchmark import Benchmark
from enginebay_lab.measurement.benchmark_rows import BenchmarkRow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay.authors import OutputComparison
    from enginebay_lab.reports.findings import Findings, ReportedArtifact

_replace = msgspec.structs.replace


class Entry(ComparisonRow, frozen=True, kw_only=True):
    """One backend at one precision: a comparison's row, with all else that is known of it.

    Attributes:
        manifest: The artifact's.
        metrics: The rows of evaluations.
        speeds: The rows of benchmarks.
        label: How the page names it, unlike all others.
    """

    precision: str = ""
    verdict: str = ""
    manifest: Manifest | None = None
    metrics: list[EvaluationRow] = []
    speeds: list[BenchmarkRow] = []
    label: str = ""

    @property
    def is_pytorch(self) -> bool:
        """True for the model itself, which a benchmark measures beside its artifacts."""
        return self.backend == "pytorch" and self.manifest is None and not self.verdict

    @property
    def outputs(self) -> tuple[OutputComparison, ...]:
        """What was compared."""
        return self.verification.outputs if self.verification else ()


def entries_of(report: Findings) -> list[Entry]:
    """Bring the records together, by the artifacts' folders."""
    rows = [row for comparison in report.comparisons for row in comparison.rows]
    found = [Entry(**msgspec.structs.asdict(row)) for row in rows]
    for artifact in report.artifacts:
        at = _place(found, artifact.path, artifact.manifest.backend)
        found[at] = _described(found[at], artifact)
    for metric in (row for evaluation in report.evaluations for row in evaluation.rows):
        found[_place(found, metric.artifact, metric.backend)].metrics.append(metric)
    for speed in (row for benchmark in report.benchmarks for row in benchmark.rows):
        at = _place(found, speed.artifact or speed.name, speed.backend)
        found[at].speeds.append(speed)
        found[at] = _replace(found[at], precision=found[at].precision or speed.precision)
    for entry in found:
        if entry.speed and not entry.speeds:  # a benchmark took longer
            entry.speeds.append(entry.speed)
    return sorted(_labelled(found), key=lambda entry: not entry.is_pytorch)


def benchmarks_of(report: Findings) -> list[Benchmark]:
    """The benchmarks, and behind them what only comparisons measured."""
    found = list(report.benchmarks)
    measured = {row.artifact for benchmark in found for row in benchmark.rows}
    for comparison in report.comparisons:
        rows = tuple(
            row.speed
            for row in comparison.rows
            if row.speed and not measured & {row.artifact, row.speed.artifact}
        )
        if rows and comparison.machine:
            first = next((row.name for row in rows if row.call), "")
            found.append(
                Benchmark(
                    rows=rows,
                    machine=comparison.machine,
                    baseline=first if len(rows) > 1 else "",
                    notes=comparison.notes,
                )
            )
    return found


def _described(entry: Entry, artifact: ReportedArtifact) -> Entry:
    """The entry with what the manifest says; its verdict may be newer than a comparison's."""
    manifest = artifact.manifest
    verdict = manifest.verification.verdict if manifest.verification else "unverified"
    requested = str(manifest.params.get("precision", ""))
    effective = manifest.receipt.precision if manifest.receipt else ""
    return _replace(
        entry,
        manifest=manifest,
        size=artifact.size,
        verification=manifest.verification,
        verdict=verdict,
        reason="" if verdict == "verified" else _reason(manifest),
        precision=entry.precision or requested or effective,
    )


def _reason(manifest: Manifest) -> str:
    verification = manifest.verification
    return verification.summary() if verification else "it was never compared with its model"


def _place(entries: list[Entry], path: str, backend: str) -> int:
    """The place of the one entry with this folder; a new entry's where there is none.

    A relative path is the end of an absolute one.
    """
    absolute = str(Path(path).absolute())
    folders = [(n, entry.artifact) for n, entry in enumerate(entries) if entry.artifact]
    same = [n for n, folder in folders if folder == absolute]
    same = same or [n for n, folder in folders if _ends_alike(folder, path)]
    if len(same) == 1:
        return same[0]
    entries.append(Entry(backend=backend, artifact=path))
    return len(entries) - 1


def _ends_alike(one: str, other: str) -> bool:
    first, second = Path(one).parts, Path(other).parts
    length = min(len(first), len(second))
    return bool(length) and first[-length:] == second[-length:]


def _labelled(entries: list[Entry]) -> list[Entry]:
    """Name each by its backend and precision; by its folder too where that says not which."""
    plain = [
        "PyTorch" if entry.is_pytorch else f"{entry.backend} {entry.precision}".rstrip()
        for entry in entries
    ]
    folders = [
        f" ({_distinct(entry.artifact, entries)})"
        if plain.count(text) > 1 and entry.artifact
        else ""
        for entry, text in zip(entries, plain, strict=True)
    ]
    named = zip(entries, plain, folders, strict=True)
    return [_replace(entry, label=text + folder) for entry, text, folder in named]


def _distinct(path: str, entries: list[Entry]) -> str:
    """The shortest end of a path that no other entry's path has."""
    others = [
        Path(entry.artifact).parts for entry in entries if entry.artifact and entry.artifact != path
    ]
    ends: Iterator[tuple[str, ...]] = (
        Path(path).parts[-n:] for n in range(1, len(Path(path).parts) + 1)
    )
    return next(
        (str(Path(*end)) for end in ends if not any(o[-len(end) :] == end for o in others)), path
    )
