"""JSON files that commands wrote, as the records that they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from enginebay import Verification
from enginebay.authors import DataRecord, Manifest
from enginebay.errors import UsageError, check_text
from enginebay_lab.comparison.comparison import Comparison
from enginebay_lab.diagnosis.rank_layers import Sensitivity
from enginebay_lab.diagnosis.record import Bisection
from enginebay_lab.evaluation.rows import Evaluation, Row
from enginebay_lab.files import similar_file
from enginebay_lab.measurement.machine import Machine
from enginebay_lab.measurement.rows import Benchmark, BenchmarkRow
from enginebay_lab.reports.record import SCHEMA, ReportedArtifact
from enginebay_lab.reports.result import Report
from enginebay_lab.sweeps.rows import Sweep
from enginebay_lab.sweeps.rows_file import read_rows

if TYPE_CHECKING:
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


class _SweepLine(msgspec.Struct, frozen=True):
    """The fields by which a line of a sweep is known."""

    key: str
    model: str
    verdict: str


#: The keys by which a line of ``--output`` is known.
_LINES = {"metric", "row", "window", "machine"}
#: The keys by which a document is known, and what it is read as.
_KINDS: tuple[tuple[frozenset[str], Any], ...] = (
    (frozenset({"artifacts", "comparisons", "evaluations"}), Report),
    (frozenset({"model", "rows"}), Comparison),
    (frozenset({"regressions", "rows"}), Sweep),
    (frozenset({"machine", "rows"}), Benchmark),
    (frozenset({"data", "rows"}), Evaluation),
    (frozenset({"nodes", "items", "backend"}), Sensitivity),
    (frozenset({"found", "places"}), Bisection),
    (frozenset({"artifact", "manifest"}), _Deployed),
    (frozenset({"artifact", "verification"}), Verified),
)


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
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _lines(path, data)
    is_line = isinstance(found, dict) and _LINES & found.keys() and "rows" not in found
    if is_line or _is_sweep(data):
        return _lines(path, data)  # an only one
    return _record(path, found)


def _record(path: Path, found: Any) -> Any:
    keys = found.keys() if isinstance(found, dict) else set()
    if "error" in keys:
        message = found["error"].get("message") if isinstance(found["error"], dict) else ""
        raise UsageError(f"'{path}' holds nothing but the error of a command: {message}")
    kind = next((kind for known, kind in _KINDS if known <= keys), None)
    if kind is None:
        held = f"an object with {', '.join(sorted(keys)[:5])}" if keys else _name_of(found)
        raise UsageError(f"'{path}' holds {held}; wanted {WANTED}")
    if kind is Report and found.get("schema") != SCHEMA:
        raise UsageError(
            f"'{path}' is a report in version {found.get('schema')!r} of its form; this Enginebay "
            f"reads {SCHEMA}",
            hint="make it again",
        )
    try:
        record = msgspec.convert(found, kind)
    except msgspec.ValidationError as err:
        raise UsageError(f"'{path}' is damaged: {err}") from err
    if isinstance(record, Comparison | Benchmark | Evaluation | Sweep) and not record.rows:
        raise UsageError(f"'{path}' holds no rows, so there is nothing to report")
    if isinstance(record, _Deployed):
        return ReportedArtifact(path=record.artifact, manifest=record.manifest)
    return record


def _lines(path: Path, data: bytes) -> Benchmark | Evaluation | Sweep:
    """The rows that ``--output`` of a command wrote, a line each; the last may be cut short."""
    if _is_sweep(data):
        return Sweep(rows=tuple(sorted(read_rows(path), key=lambda row: row.label)))
    lines = data.splitlines()
    whole = lines if data.endswith(b"\n") else lines[:-1]
    try:
        rows = [msgspec.json.decode(line, type=Row) for line in whole if b'"metric"' in line]
        others = [msgspec.json.decode(line, type=_BenchmarkLine) for line in whole]
    except (msgspec.DecodeError, UnicodeDecodeError) as err:
        raise UsageError(f"'{path}' is no JSON that a command wrote; wanted {WANTED}") from err
    if rows:
        last = {(row.artifact, row.metric): row for row in rows}
        return Evaluation(
            rows=tuple(last.values()), data=DataRecord(source="", count=rows[0].count)
        )
    machine = next((line.machine for line in others if line.machine), None)
    measured = tuple(line.row for line in others if line.row)
    if machine is not None and measured:
        names = {row.name for row in measured}
        return Benchmark(
            rows=measured, machine=machine, baseline=measured[0].name if len(names) > 1 else ""
        )
    if others:
        state = "holds no row that is complete"
    else:
        state = "is no JSON that a command wrote" if data else "is empty"
    raise UsageError(f"'{path}' {state}; wanted {WANTED}")


def _is_sweep(data: bytes) -> bool:
    """True for the rows that a sweep wrote."""
    try:
        msgspec.json.decode(data.partition(b"\n")[0], type=_SweepLine)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return True


def _name_of(found: Any) -> str:
    names = {"list": "a list", "str": "a text", "dict": "an object without keys"}
    return names.get(type(found).__name__, "a number or a constant")
