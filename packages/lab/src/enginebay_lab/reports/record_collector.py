"""``report``: collects results, artifacts and files in a report."""

from __future__ import annotations

import shlex
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
from enginebay_lab.reports.documents import EXPECTED_SOURCES, VerifyDocument, read_document
from enginebay_lab.reports.findings import FailedDeployment, ReportedArtifact
from enginebay_lab.reports.report import Report
from enginebay_lab.reports.same_model_check import SameModelCheck
from enginebay_lab.sweeps.rows_file import ROWS_FILE as SWEEP_FILE
from enginebay_lab.sweeps.sweep_rows import Sweep

#: The file that identifies an artifact's folder.
MANIFEST_FILE = "manifest.json"

if TYPE_CHECKING:
    from collections.abc import Iterable


def report(*sources: object, command: str = "") -> Report:
    """Return a report on the results about one model, or on sweeps of many models.

    Args:
        *sources: Each is a result of :func:`enginebay.deploy` or of a function of the lab, an
            artifact, a report, or a path: the folder of a comparison, a sweep or an artifact, or a
            JSON file that a command wrote with ``--json``, ``--output`` or ``--report``. A result
            of :func:`enginebay.verify` must come directly after its artifact.
        command: The command that makes the report again; ignored if the only source is a report.

    Raises:
        UsageError: The sources contain no results, a path is not one of those listed above, or two
            artifacts are of different models. Models differ if their inputs or outputs have
            different names or ranks, if the sizes of their outputs differ for inputs of equal
            sizes, or if the references recorded different outputs for the same inputs.
        ArtifactError: An artifact is damaged.

    Example:
        >>> import enginebay as eb
        >>> lab.report("comparison").save("report.html")  # doctest: +SKIP
    """
    collector = _RecordCollector()
    for source in sources:
        collector.add_source(source)
    collector.check_not_empty()
    if len(sources) == 1 and collector.reports:  # it stays as it is, with its command and date
        return collector.reports[0]
    records: dict[str, Any] = {name: tuple(group) for name, group in collector.records.items()}
    return Report(
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        artifacts=tuple(collector.artifacts.values()),
        failures=tuple(collector.failures.values()),
        **records,
        command=command,
    )


#: The fields of a report with results of the lab, by the type of the results.
_RECORD_FIELDS: dict[type, str] = {
    Comparison: "comparisons",
    Benchmark: "benchmarks",
    Evaluation: "evaluations",
    Sensitivity: "sensitivities",
    Bisection: "bisections",
    Sweep: "sweeps",
}


def _add_redirection(document: object, path: Path) -> object:
    """Return a result whose command also writes the file ``path``, from which it was read.

    The output of ``--json`` was written to this file; a shell's redirection is in no command line.
    """
    if not isinstance(document, Benchmark | Evaluation | Comparison | Sweep):
        return document
    words = shlex.split(document.command)
    if "--json" not in words:
        return document
    absolute = path.absolute()
    target = absolute.name if words[:2] == ["cd", str(absolute.parent)] else str(absolute)
    command = f"{document.command} > {shlex.quote(target)}"
    return msgspec.structs.replace(document, command=command)


class _RecordCollector:
    """Collects the results for a report, and checks that they are about the same model.

    Attributes:
        artifacts: The artifacts by their folders.
        failures: The deployments that made no artifact, by the files with their errors.
        records: Lists of the other results, by the names of the report's fields.
        reports: The reports that were passed to :meth:`add_source`.
    """

    def __init__(self) -> None:
        self.artifacts: dict[str, ReportedArtifact] = {}
        self.failures: dict[str, FailedDeployment] = {}
        self.records: dict[str, list[Any]] = {field: [] for field in _RECORD_FIELDS.values()}
        self.reports: list[Report] = []
        self._model_check = SameModelCheck()
        self._last_artifact = ""

    def add_source(self, source: object) -> None:
        """Add the results in ``source``: a result, an artifact, a report, or the path of one.

        Raises:
            UsageError: A report cannot show the source, or the source is about a different model.
            ArtifactError: The source is a damaged artifact.
        """
        match source:
            case str() | Path():
                self._add_path(source)
            case Artifact():
                self._add_artifact(source)
            case Deployment():
                self._add_artifact(source.artifact)
            case ReportedArtifact():
                self._add_reported_artifact(source)
            case FailedDeployment():
                self.failures[source.path] = source
            case Verification():
                self._add_verification(source)
            case VerifyDocument():
                self._add_artifact(open_artifact(source.artifact))
                self._add_verification(source.verification)
            case Comparison():
                self._add_comparison(source)
            case Report():
                self._add_report(source)
            case Benchmark() | Evaluation() | Sensitivity() | Bisection() | Sweep():
                if isinstance(source, Benchmark | Evaluation):
                    self._add_artifact_folders(row.artifact for row in source.rows)
                self.records[_RECORD_FIELDS[type(source)]].append(source)
            case _:
                raise UsageError(
                    f"a report cannot show a {type(source).__name__}; expected a result of "
                    "compare, deploy, benchmark, evaluate, sensitivity, bisect or sweep, an "
                    "artifact, a report, or a path"
                )

    def check_not_empty(self) -> None:
        """Check that the report has contents.

        Raises:
            UsageError: No result and no artifact was added.
        """
        if not (self.artifacts or self.failures) and not any(self.records.values()):
            raise UsageError(f"nothing to report; expected {EXPECTED_SOURCES}")

    def _add_path(self, source: str | Path) -> None:
        path = Path(source)
        if not path.is_dir():
            self.add_source(_add_redirection(read_document(path), path))
        elif (path / ROWS_FILE).is_file():
            document = read_document(path / ROWS_FILE)
            if not isinstance(document, Comparison):
                raise UsageError(
                    f"'{path / ROWS_FILE}' is not a comparison; expected {EXPECTED_SOURCES}"
                )
            self._add_comparison(document, path)
        elif (path / MANIFEST_FILE).is_file():
            self._add_artifact(open_artifact(path))
        elif (path / SWEEP_FILE).is_file():
            self.add_source(read_document(path / SWEEP_FILE))
        else:
            # The folder may contain artifacts or comparisons.
            is_parent = any(path.glob(f"*/{MANIFEST_FILE}")) or any(path.glob(f"*/{ROWS_FILE}"))
            raise UsageError(
                f"'{path}' contains neither {ROWS_FILE} nor {MANIFEST_FILE}; expected "
                f"{EXPECTED_SOURCES}",
                hint=f"name its subfolders: enginebay report {path}/*/" if is_parent else None,
            )

    def _add_artifact(self, artifact: Artifact) -> None:
        self._model_check.check_artifact(artifact)
        path = str(artifact.path)
        self.artifacts[path] = ReportedArtifact(path=path, manifest=artifact.manifest)
        self._last_artifact = path

    def _add_reported_artifact(self, reported: ReportedArtifact) -> None:
        self._model_check.check_manifest(reported.path, reported.manifest)
        self.artifacts.setdefault(reported.path, reported)
        self._last_artifact = reported.path

    def _add_verification(self, verification: Verification) -> None:
        """Replace the verification that the manifest of the last added artifact contains."""
        if not self._last_artifact:
            raise UsageError(
                "a verdict without its artifact cannot be reported",
                hint="pass the artifact before its verdict: report(artifact, verdict)",
            )
        reported = self.artifacts[self._last_artifact]
        manifest = msgspec.structs.replace(reported.manifest, verification=verification)
        replaced = msgspec.structs.replace(reported, manifest=manifest)
        self.artifacts[self._last_artifact] = replaced

    def _add_comparison(self, comparison: Comparison, folder: Path | None = None) -> None:
        """Add a comparison and its artifacts.

        Artifacts that are missing, or that were deployed again after the comparison, are skipped.
        """
        rows = []
        for row in comparison.rows:
            rows.append(row)
            if row.artifact is None:
                continue
            path = Path(row.artifact)
            if folder is not None and (folder / path.name / MANIFEST_FILE).is_file():
                path = folder / path.name  # the whole folder was moved
            try:
                artifact = open_artifact(path)
            except ArtifactError:
                continue  # the row still has its figures
            if artifact.manifest.verification == row.verification:  # else it was deployed again
                self._add_artifact(artifact)
                rows[-1] = msgspec.structs.replace(row, artifact=str(artifact.path))
        moved = msgspec.structs.replace(comparison, rows=tuple(rows))
        self.records["comparisons"].append(moved)

    def _add_artifact_folders(self, names: Iterable[str]) -> None:
        """Add the artifacts in the folders ``names``; skip folders that no longer exist."""
        for name in filter(None, dict.fromkeys(names)):  # PyTorch's rows have empty names
            path = str(Path(name).resolve())
            if path not in self.artifacts and (Path(path) / MANIFEST_FILE).is_file():
                self._add_artifact(open_artifact(path))

    def _add_report(self, other: Report) -> None:
        fields = ("artifacts", "failures", *_RECORD_FIELDS.values())
        records = (getattr(other, field) for field in fields)
        for record in (record for group in records for record in group):
            if isinstance(record, Comparison):  # its artifacts are in the report already
                self.records["comparisons"].append(record)
            else:
                self.add_source(record)
        self.reports.append(other)
