"""From what a caller names to the records of a report."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay import Artifact, Deployment, Verification, open_artifact
from enginebay.errors import ArtifactError, UsageError
from enginebay_lab.comparison.comparison import ROWS_FILE, Comparison
from enginebay_lab.diagnosis.bisection import Bisection
from enginebay_lab.diagnosis.rank_layers import Sensitivity
from enginebay_lab.evaluation.evaluation_rows import Evaluation
from enginebay_lab.measurement.benchmark import Benchmark
from enginebay_lab.reports.documents import WANTED, Verified, read_document
from enginebay_lab.reports.findings import ReportedArtifact
from enginebay_lab.reports.report import Report
from enginebay_lab.reports.same_model_check import OneModel
from enginebay_lab.sweeps.rows_file import ROWS_FILE as SWEEP_FILE
from enginebay_lab.sweeps.sweep_rows import Sweep

#: The file by which the folder of an artifact is known.
MANIFEST_NAME = "manifest.json"

if TYPE_CHECKING:
    from collections.abc import Iterable


def report(*sources: Any, command: str = "") -> Report:
    """Gather what was found about one model, and by sweeps of many.

    Args:
        *sources: Each is a result of :func:`enginebay.deploy` or of a function of the lab, an
            artifact, a report, or a path: the folder of a comparison, a sweep or an artifact, or a
            JSON file that a command wrote with ``--json``, ``--output`` or ``--report``. A verdict
            of :func:`enginebay.verify` stands behind its artifact.
        command: What to type to make the report again. One report alone stays as it is.

    Raises:
        UsageError: There is nothing to report, a path is something else, or two artifacts are not
            of one model: their inputs or outputs have other names, other numbers of axes or, for
            inputs of equal sizes, outputs of other sizes; or the reference recorded other outputs
            for the same inputs.
        ArtifactError: An artifact is damaged.

    Example:
        >>> import enginebay as eb
        >>> lab.report("comparison").save("report.html")  # doctest: +SKIP
    """
    gathering = _Gathering()
    for source in sources:
        gathering.add(source)
    gathering.check()
    if len(sources) == 1 and gathering.reports:
        return gathering.reports[0]
    records: dict[str, Any] = {name: tuple(found) for name, found in gathering.records.items()}
    return Report(
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        artifacts=tuple(gathering.artifacts.values()),
        **records,
        command=command,
    )


#: The fields of a report that hold results of the lab, by what they hold.
_FIELDS: dict[type, str] = {
    Comparison: "comparisons",
    Benchmark: "benchmarks",
    Evaluation: "evaluations",
    Sensitivity: "sensitivities",
    Bisection: "bisections",
    Sweep: "sweeps",
}


class _Gathering:
    """The records so far.

    Attributes:
        artifacts: By their folders.
        records: All others as they came, by the field of the report that holds them.
        reports: Those that the records came from.
    """

    def __init__(self) -> None:
        self.artifacts: dict[str, ReportedArtifact] = {}
        self.records: dict[str, list[Any]] = {field: [] for field in _FIELDS.values()}
        self.reports: list[Report] = []
        self._model = OneModel()
        self._last = ""

    def add(self, source: Any) -> None:
        """Add one source.

        Raises:
            UsageError: It is nothing that a report shows, or of another model.
            ArtifactError: It is an artifact, and damaged.
        """
        match source:
            case str() | Path():
                self._add_path(source)
            case Artifact():
                self._add_artifact(source)
            case Deployment():
                self._add_artifact(source.artifact)
            case ReportedArtifact():
                self._add_reported(source)
            case Verification():
                self._add_verification(source)
            case Verified():
                self._add_artifact(open_artifact(source.artifact))
                self._add_verification(source.verification)
            case Comparison():
                self._add_comparison(source)
            case Report():
                self._add_report(source)
            case Benchmark() | Evaluation() | Sensitivity() | Bisection() | Sweep():
                if isinstance(source, Benchmark | Evaluation):
                    self._add_folders(row.artifact for row in source.rows)
                self.records[_FIELDS[type(source)]].append(source)
            case _:
                raise UsageError(
                    f"a report cannot show a {type(source).__name__}; wanted a result of compare, "
                    "deploy, benchmark, evaluate, sensitivity, bisect or sweep, an artifact, a "
                    "report, or a path"
                )

    def check(self) -> None:
        """Refuse a report of nothing."""
        if not self.artifacts and not any(self.records.values()):
            raise UsageError(f"there is nothing to report; wanted {WANTED}")

    def _add_path(self, source: str | Path) -> None:
        path = Path(source)
        if not path.is_dir():
            self.add(read_document(path))
        elif (path / ROWS_FILE).is_file():
            found = read_document(path / ROWS_FILE)
            if not isinstance(found, Comparison):
                raise UsageError(f"'{path / ROWS_FILE}' holds no comparison; wanted {WANTED}")
            self._add_comparison(found, path)
        elif (path / MANIFEST_NAME).is_file():
            self._add_artifact(open_artifact(path))
        elif (path / SWEEP_FILE).is_file():
            self.add(read_document(path / SWEEP_FILE))
        else:
            inside = any(path.glob(f"*/{MANIFEST_NAME}")) or any(path.glob(f"*/{ROWS_FILE}"))
            raise UsageError(
                f"'{path}' holds neither {ROWS_FILE} nor {MANIFEST_NAME}; wanted {WANTED}",
                hint=f"name the folders in it: enginebay report {path}/*/" if inside else None,
            )

    def _add_artifact(self, artifact: Artifact) -> None:
        self._model.check(artifact)
        path = str(artifact.path)
        self.artifacts[path] = ReportedArtifact(path=path, manifest=artifact.manifest)
        self._last = path

    def _add_reported(self, found: ReportedArtifact) -> None:
        self._model.check_manifest(found.path, found.manifest)
        self.artifacts.setdefault(found.path, found)
        self._last = found.path

    def _add_verification(self, verification: Verification) -> None:
        """Replace the verdict that the artifact before it carries."""
        if not self._last:
            raise UsageError(
                "a verdict alone does not say what it is about", hint="report(artifact, verdict)"
            )
        found = self.artifacts[self._last]
        manifest = msgspec.structs.replace(found.manifest, verification=verification)
        self.artifacts[self._last] = msgspec.structs.replace(found, manifest=manifest)

    def _add_comparison(self, comparison: Comparison, folder: Path | None = None) -> None:
        """Add it with those of its artifacts that are still there, and still the same."""
        rows = []
        for row in comparison.rows:
            rows.append(row)
            if row.artifact is None:
                continue
            path = Path(row.artifact)
            if folder is not None and (folder / path.name / MANIFEST_NAME).is_file():
                path = folder / path.name  # the whole folder was moved
            try:
                artifact = open_artifact(path)
            except ArtifactError:
                continue  # its row has the figures
            if artifact.manifest.verification == row.verification:
                self._add_artifact(artifact)
                rows[-1] = msgspec.structs.replace(row, artifact=str(artifact.path))
        found = msgspec.structs.replace(comparison, rows=tuple(rows))
        self.records["comparisons"].append(found)

    def _add_folders(self, names: Iterable[str]) -> None:
        """Add the artifacts that are still there; PyTorch's rows name none."""
        for name in filter(None, dict.fromkeys(names)):
            path = str(Path(name).resolve())
            if path not in self.artifacts and (Path(path) / MANIFEST_NAME).is_file():
                self._add_artifact(open_artifact(path))

    def _add_report(self, other: Report) -> None:
        records = (other.artifacts, *(getattr(other, field) for field in _FIELDS.values()))
        for record in (record for group in records for record in group):
            if isinstance(record, Comparison):  # its artifacts are among the report's
                self.records["comparisons"].append(record)
            else:
                self.add(record)
        self.reports.append(other)
