"""JSON files that commands wrote, as the records that they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from enginebay import Verification
from enginebay.authors import DataRecord, Manifest
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
from enginebay_lab.reports.findings import ReportedArtifact
from enginebay_lab.reports.report import Report
from enginebay_lab.sweeps.rows_file import read_rows
from enginebay_lab.sweeps.sweep_rows import ROW_KIND as SWEEP_ROW, Sweep

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WANTED = (
    "the folder of a comparison, a sweep or an artifact, or a JSON file that deploy, benchmark, "
    "evaluate, verify, sensitivity, sweep or report wrote"
)


class Verified(msgspec.Struct, frozen=True):
    """The document of ``verify --json``.

    Attributes:
        artifact: The artifact's folder.
        verification: The new verdict.
    """

    artifact: str
    verification: Verification


class _Deployed(msgspec.Struct, frozen=True):
    """The document of ``deploy --json`` and of ``inspect --json``."""

    artifact: str
    manifest: Manifest


class _BenchmarkLine(msgspec.Struct, frozen=True):
    """A line of ``benchmark --output`` that is not a window."""

    row: BenchmarkRow | None = None
    machine: Machine | None = None


class _DocumentHead(msgspec.Struct, frozen=True):
    """What a document or a line says about itself."""

    kind: str = ""
    schema: int = SCHEMA
    error: Any = None


#: What a document is read as, by the kind that it names.
_DOCUMENTS: dict[str, Any] = {
    "artifact": _Deployed,
    "deployment": _Deployed,
    "quantization": _Deployed,
    "verification": Verified,
    "comparison": Comparison,
    "benchmark": Benchmark,
    "evaluation": Evaluation,
    "sensitivity": Sensitivity,
    "bisection": Bisection,
    "sweep": Sweep,
    "report": Report,
}


def read_document(path: Path) -> Any:
    """Read the record in a file.

    Raises:
        UsageError: It is not there, or holds something else.
        OSError: It cannot be read.
    """
    check_text(str(path))
    if not path.exists():
        raise UsageError(
            f"'{path}' does not exist; wanted {WANTED}",
            hint=similar_file(path),
        )
    data = path.read_bytes()
    head = _head(path, data)
    if head.kind in _LINES:
        return _LINES[head.kind](path)
    kind = _DOCUMENTS.get(head.kind)
    if kind is None:
        held = f"is of kind '{head.kind}'" if head.kind else "names no kind"
        raise UsageError(f"'{path}' {held}; wanted {WANTED}")
    if head.schema != SCHEMA:
        raise UsageError(
            f"'{path}' is a {head.kind} in version {head.schema} of its form; this Enginebay "
            f"reads {SCHEMA}",
            hint="make it again",
        )
    try:
        record = decode_json(data, kind)
    except msgspec.DecodeError as err:
        raise UsageError(f"'{path}' is damaged: {err}") from err
    if isinstance(record, Comparison | Benchmark | Evaluation | Sweep) and not record.rows:
        raise UsageError(f"'{path}' holds no rows, so there is nothing to report")
    if isinstance(record, _Deployed):
        return ReportedArtifact(path=record.artifact, manifest=record.manifest)
    return record


def _head(path: Path, data: bytes) -> _DocumentHead:
    """What a document says about itself, or the first line that is whole."""
    reason = "it is empty"
    for text in (data, *data.splitlines()) if data else ():
        try:
            head: _DocumentHead = decode_json(text, _DocumentHead)
        except msgspec.DecodeError as err:
            reason = str(err)
            continue
        if isinstance(head.error, dict):
            message = head.error.get("message")
            raise UsageError(f"'{path}' holds nothing but the error of a command: {message}")
        return head
    raise UsageError(f"'{path}' is no JSON that a command wrote: {reason}; wanted {WANTED}")


def _sweep(path: Path) -> Sweep:
    return Sweep(rows=tuple(sorted(read_rows(path), key=lambda row: row.label)))


def _evaluation(path: Path) -> Evaluation:
    rows = [row for _, row in Journal(path, EVALUATION_ROW).read(EvaluationRow)]
    last = {(row.artifact, row.metric): row for row in rows}
    return Evaluation(rows=tuple(last.values()), data=DataRecord(source="", count=rows[0].count))


def _benchmark(path: Path) -> Benchmark:
    lines = [line for _, line in Journal(path, LINE_KIND).read(_BenchmarkLine)]
    machine = next((line.machine for line in lines if line.machine), None)
    measured = tuple(line.row for line in lines if line.row)
    if machine is None or not measured:
        raise UsageError(f"'{path}' holds no row that is complete; wanted {WANTED}")
    names = {row.name for row in measured}
    return Benchmark(
        rows=measured, machine=machine, baseline=measured[0].name if len(names) > 1 else ""
    )


#: What reads a file of lines, by the kind that each line names.
_LINES: dict[str, Callable[[Path], Any]] = {
    SWEEP_ROW: _sweep,
    EVALUATION_ROW: _evaluation,
    LINE_KIND: _benchmark,
}
