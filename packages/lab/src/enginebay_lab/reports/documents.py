"""Reads the results in JSON files that commands wrote."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay import Verification
from enginebay.authors.artifacts import Manifest
from enginebay.authors.sources import DataRecord
from enginebay.errors import UsageError, check_text
from enginebay_lab.comparison.comparison import Comparison
from enginebay_lab.diagnosis.bisection import Bisection
from enginebay_lab.diagnosis.rank_layers import Sensitivity
from enginebay_lab.evaluation.evaluation_rows import (
    ROW_KIND as EVALUATION_ROW,
    Evaluation,
    EvaluationRow,
)
from enginebay_lab.journal import SCHEMA, Journal, decode_json, similar_file
from enginebay_lab.measurement.benchmark import Benchmark
from enginebay_lab.measurement.benchmark_rows import LINE_KIND, BenchmarkRow
from enginebay_lab.measurement.machine import Machine
from enginebay_lab.reports.findings import FailedDeployment, ReportedArtifact
from enginebay_lab.reports.report import Report
from enginebay_lab.sweeps.rows_file import read_rows
from enginebay_lab.sweeps.sweep_rows import ROW_KIND as SWEEP_ROW, Sweep

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EXPECTED_SOURCES = (
    "the folder of a comparison, a sweep or an artifact, or a JSON file that deploy, benchmark, "
    "evaluate, verify, sensitivity, sweep or report wrote"
)


class VerifyDocument(msgspec.Struct, frozen=True):
    """The JSON document that ``verify --json`` prints.

    Attributes:
        artifact: The artifact's folder.
        verification: The result of the new verification.
    """

    artifact: str
    verification: Verification


class _DeployDocument(msgspec.Struct, frozen=True):
    """The JSON document that ``deploy --json`` and ``inspect --json`` print."""

    artifact: str
    manifest: Manifest


class _BenchmarkLine(msgspec.Struct, frozen=True):
    """A line of ``benchmark --output``: a row, the machine or, without both, timed calls."""

    row: BenchmarkRow | None = None
    machine: Machine | None = None


class _CommandError(msgspec.Struct, frozen=True):
    message: str
    hint: str | None = None


class _FailureDocument(msgspec.Struct, frozen=True):
    """The JSON document of a command that ended with an error."""

    error: _CommandError
    command: str = ""
    verification: Verification | None = None


class _DocumentHead(msgspec.Struct, frozen=True):
    """The fields that identify the type of a JSON document, or of a line in JSON Lines."""

    kind: str = ""
    schema: int = SCHEMA
    error: Any = None


#: The class of a document's record, by the ``kind`` of the document.
_DOCUMENT_TYPES: dict[str, Any] = {
    "artifact": _DeployDocument,
    "deployment": _DeployDocument,
    "quantization": _DeployDocument,
    "verification": VerifyDocument,
    "comparison": Comparison,
    "benchmark": Benchmark,
    "evaluation": Evaluation,
    "sensitivity": Sensitivity,
    "bisection": Bisection,
    "sweep": Sweep,
    "report": Report,
}


def read_document(path: Path) -> object:
    """Return the result in a JSON file that a command wrote.

    Raises:
        UsageError: The file does not exist, or does not contain a command's result.
        OSError: The file cannot be read.
    """
    check_text(str(path))
    if not path.exists():
        raise UsageError(
            f"'{path}' does not exist; expected {EXPECTED_SOURCES}",
            hint=similar_file(path),
        )
    data = path.read_bytes()
    head = _read_head(path, data)
    if isinstance(head.error, dict):
        return _read_failure(path, data)
    if head.kind in _LINE_READERS:
        return _LINE_READERS[head.kind](path)
    kind = _DOCUMENT_TYPES.get(head.kind)
    if kind is None:
        problem = f"is of kind '{head.kind}'" if head.kind else "has no field 'kind'"
        raise UsageError(f"'{path}' {problem}; expected {EXPECTED_SOURCES}")
    if head.schema != SCHEMA:
        raise UsageError(
            f"'{path}' is a {head.kind} of schema {head.schema}, expected schema {SCHEMA} of this "
            "Enginebay",
            hint="create the file again",
        )
    try:
        record = decode_json(data, kind)
    except msgspec.DecodeError as err:
        raise UsageError(f"'{path}' is damaged: {err}") from err
    if isinstance(record, Comparison | Benchmark | Evaluation | Sweep) and not record.rows:
        raise UsageError(f"'{path}' contains no rows, so there is nothing to report")
    if isinstance(record, _DeployDocument):
        return ReportedArtifact(path=record.artifact, manifest=record.manifest)
    return record


def _read_head(path: Path, data: bytes) -> _DocumentHead:
    """Return the fields that identify the type of a file.

    The fields are in the JSON document or, for JSON Lines, in the first complete line.
    """
    reason = "it is empty"
    # A file of lines is not one JSON document, and a killed command may have cut a line.
    for text in (data, *data.splitlines()) if data else ():
        try:
            head: _DocumentHead = decode_json(text, _DocumentHead)
        except msgspec.DecodeError as err:
            reason = str(err)
            continue
        return head
    raise UsageError(
        f"'{path}' is not JSON that a command wrote: {reason}; expected {EXPECTED_SOURCES}"
    )


def _read_failure(path: Path, data: bytes) -> FailedDeployment:
    try:
        document = decode_json(data, _FailureDocument)
        shlex.split(document.command)
    except (msgspec.DecodeError, ValueError) as err:
        raise UsageError(f"'{path}' is damaged: {err}") from err
    error = document.error
    if not document.command.startswith("enginebay deploy "):
        raise UsageError(f"'{path}' contains only the error of a command: {error.message}")
    return FailedDeployment(
        path=str(path.absolute()),
        command=document.command,
        reason=error.message,
        hint=error.hint or "",
        verification=document.verification,
    )


def _read_sweep(path: Path) -> Sweep:
    # The file has the rows in the order in which the cells ended.
    return Sweep(rows=tuple(sorted(read_rows(path), key=lambda row: row.label)))


def _read_evaluation(path: Path) -> Evaluation:
    rows = [row for _, row in Journal(path, EVALUATION_ROW).read(EvaluationRow)]
    # A resumed evaluation writes a new row for an artifact that was lost before.
    last = {(row.artifact, row.metric): row for row in rows}
    return Evaluation(rows=tuple(last.values()), data=DataRecord(source="", count=rows[0].count))


def _read_benchmark(path: Path) -> Benchmark:
    lines = [line for _, line in Journal(path, LINE_KIND).read(_BenchmarkLine)]
    machine = next((line.machine for line in lines if line.machine), None)
    measured = tuple(line.row for line in lines if line.row)
    if machine is None or not measured:
        raise UsageError(f"'{path}' contains no complete row; expected {EXPECTED_SOURCES}")
    names = {row.name for row in measured}
    return Benchmark(
        rows=measured, machine=machine, baseline=measured[0].name if len(names) > 1 else ""
    )


#: The reader of a file with a JSON document per line, by the ``kind`` of its lines.
_LINE_READERS: dict[str, Callable[[Path], object]] = {
    SWEEP_ROW: _read_sweep,
    EVALUATION_ROW: _read_evaluation,
    LINE_KIND: _read_benchmark,
}
