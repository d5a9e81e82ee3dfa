"""One entry for each artifact: what the records of a report say about it, brought together."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay_lab.measurement.benchmark_rows import Benchmark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enginebay import Verification
    from enginebay.authors import Manifest, OutputComparison
    from enginebay_lab.comparison.comparison import ComparisonRow
    from enginebay_lab.evaluation.evaluation_rows import Row
    from enginebay_lab.measurement.benchmark_rows import BenchmarkRow
    from enginebay_lab.reports.findings import Findings, ReportedArtifact


@dataclass
class Entry:
    """One backend at one precision.

    Attributes:
        backend: The backend's name.
        path: The artifact's folder, as the record names it; empty where there is none.
        precision: The precision; empty where it is not known.
        verdict: ``verified``, ``mismatched``, ``unverified``, ``crashed``, ``failed``, or empty.
        reason: Why it is not verified; else empty.
        hint: What to type next, where something does.
        verification: The figures behind the verdict.
        manifest: The artifact's.
        size: Bytes of its files.
        seconds: How long it took to deploy.
        notes: For the reader.
        metrics: The rows of evaluations.
        speeds: The rows of benchmarks.
        label: How the page names it, unlike all others.
    """

    backend: str
    path: str = ""
    precision: str = ""
    verdict: str = ""
    reason: str = ""
    hint: str = ""
    verification: Verification | None = None
    manifest: Manifest | None = None
    size: int | None = None
    seconds: float | None = None
    notes: tuple[str, ...] = ()
    metrics: list[Row] = field(default_factory=list)
    speeds: list[BenchmarkRow] = field(default_factory=list)
    label: str = ""

    @property
    def is_pytorch(self) -> bool:
        """True for the model itself, which a benchmark measures beside its artifacts."""
        return self.backend == "pytorch" and self.manifest is None and not self.verdict

    @property
    def outputs(self) -> tuple[OutputComparison, ...]:
        """What was compared."""
        return self.verification.outputs if self.verification else ()

    @property
    def max_abs_error(self) -> float | None:
        """The largest absolute error of any output; None where nothing was compared."""
        errors = [one.max_abs_error for one in self.outputs if one.max_abs_error is not None]
        return max(errors, default=None)


def entries_of(report: Findings) -> list[Entry]:
    """Bring the records together, by the artifacts' folders."""
    compared = [row for comparison in report.comparisons for row in comparison.rows]
    found = [_compared(row) for row in compared]
    with_speed = list(zip(found, compared, strict=True))
    for artifact in report.artifacts:
        _describe(_entry(found, artifact.path, artifact.manifest.backend), artifact)
    for metric in (row for evaluation in report.evaluations for row in evaluation.rows):
        _entry(found, metric.artifact, metric.backend).metrics.append(metric)
    for speed in (row for benchmark in report.benchmarks for row in benchmark.rows):
        entry = _entry(found, speed.artifact or speed.name, speed.backend)
        entry.speeds.append(speed)
        entry.precision = entry.precision or speed.precision
    for entry, row in with_speed:
        if row.speed and not entry.speeds:  # a benchmark took longer
            entry.speeds.append(row.speed)
    _label(found)
    return sorted(found, key=lambda entry: not entry.is_pytorch)


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


def _compared(row: ComparisonRow) -> Entry:
    return Entry(
        row.backend,
        path=row.artifact or "",
        precision=row.precision,
        verdict=row.verdict,
        reason=row.reason,
        hint=row.hint,
        verification=row.verification,
        size=row.size,
        seconds=row.seconds,
        notes=row.notes,
    )


def _describe(entry: Entry, artifact: ReportedArtifact) -> None:
    """Add what the manifest says; its verdict may be newer than a comparison's."""
    manifest = entry.manifest = artifact.manifest
    entry.size = artifact.size
    entry.verification = manifest.verification
    entry.verdict = manifest.verification.verdict if manifest.verification else "unverified"
    entry.reason = "" if entry.verdict == "verified" else _reason(manifest)
    requested = str(manifest.params.get("precision", ""))
    effective = manifest.receipt.precision if manifest.receipt else ""
    entry.precision = entry.precision or requested or effective


def _reason(manifest: Manifest) -> str:
    verification = manifest.verification
    return verification.summary() if verification else "it was never compared with its model"


def _entry(entries: list[Entry], path: str, backend: str) -> Entry:
    """The one entry whose folder this is, or a new one."""
    entry = _with_path(entries, path)
    if entry is None:
        entry = Entry(backend, path)
        entries.append(entry)
    return entry


def _with_path(entries: list[Entry], path: str) -> Entry | None:
    """The one entry with this folder; a relative path is the end of an absolute one."""
    absolute = str(Path(path).absolute())
    same = [entry for entry in entries if entry.path and absolute == entry.path]
    same = same or [entry for entry in entries if entry.path and _ends_alike(entry.path, path)]
    return same[0] if len(same) == 1 else None


def _ends_alike(one: str, other: str) -> bool:
    first, second = Path(one).parts, Path(other).parts
    length = min(len(first), len(second))
    return bool(length) and first[-length:] == second[-length:]


def _label(entries: list[Entry]) -> None:
    """Name each by its backend and precision; by its folder too where that says not which."""
    plain = [
        "PyTorch" if entry.is_pytorch else f"{entry.backend} {entry.precision}".rstrip()
        for entry in entries
    ]
    for entry, text in zip(entries, plain, strict=True):
        entry.label = text
        if plain.count(text) > 1 and entry.path:
            entry.label = f"{text} ({_distinct(entry.path, entries)})"


def _distinct(path: str, entries: list[Entry]) -> str:
    """The shortest end of a path that no other entry's path has."""
    others = [Path(entry.path).parts for entry in entries if entry.path and entry.path != path]
    ends: Iterator[tuple[str, ...]] = (
        Path(path).parts[-n:] for n in range(1, len(Path(path).parts) + 1)
    )
    return next(
        (str(Path(*end)) for end in ends if not any(o[-len(end) :] == end for o in others)), path
    )
