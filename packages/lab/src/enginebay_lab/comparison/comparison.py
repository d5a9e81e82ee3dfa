"""The result of a comparison: a row for each backend, precision and combination of parameters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay import Receipt, Verification
from enginebay.authors.files import write_whole
from enginebay.commands import (
    Fields,
    Result,
    Table,
    describe_precision,
    human_seconds,
    human_size,
    short_path,
)
from enginebay.errors import NotVerifiedError
from enginebay_lab.measurement.benchmark_rows import BenchmarkRow
from enginebay_lab.measurement.machine import Machine
from enginebay_lab.measurement.statistics import select_fastest
from enginebay_lab.shared_params import describe_params

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Self

    from enginebay import Deployment
    from enginebay.commands import Block
    from enginebay.errors import EnginebayError

#: The name of the file with the result in the comparison's folder.
ROWS_FILE = "comparison.json"


class ComparisonRow(msgspec.Struct, frozen=True, kw_only=True):
    """The result of deploying the model on one backend at one precision, with its parameters.

    Attributes:
        backend: The backend's name.
        precision: The precision; empty if the backend has none, or cannot be used.
        verdict: ``verified``, ``mismatched``, ``unverified``, ``crashed``, or ``failed`` if no
            engine could be built.
        reason: Why the artifact is not verified, or could not be built; empty if it is verified.
        hint: What to type next; empty if there is no suggestion.
        verification: The verdict with its error metrics; None if no engine could be built.
        artifact: The artifact's folder; None if no artifact was published.
        size: The total size of the artifact's files in bytes; None if there is no artifact.
        seconds: The duration of the deployment in seconds.
        notes: Notes of the deployment, see :class:`enginebay.Deployment`.
        speed: The artifact's row in the benchmark; None if the artifact was not measured. The
            baseline of the benchmark is the first measured artifact.
        params: The backend's parameters of this row: in a comparison those that have several
            values, in a sweep those that the cell specifies.
        receipt: The engine, device, provider and precision that the engine reports; None if it did
            not run.
    """

    backend: str
    precision: str
    verdict: str
    reason: str = ""
    hint: str = ""
    verification: Verification | None = None
    artifact: str | None = None
    size: int | None = None
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    speed: BenchmarkRow | None = None
    params: dict[str, Any] = {}
    receipt: Receipt | None = None

    @property
    def label(self) -> str:
        """The backend, its precision and :attr:`params`: ``openvino fp16 → fp32 threads=2``."""
        return f"{self.backend} {self.precision_text}".rstrip() + describe_params(self.params)

    @property
    def precision_text(self) -> str:
        """The precision, and the one that the engine computed in if it is another."""
        if not self.precision or not self.verification:
            return self.precision
        return describe_precision(self.precision, self.verification.precision)

    @property
    def latency(self) -> float | None:
        """The median duration of a call in seconds; None if it was not measured."""
        return self.speed.call.median if self.speed and self.speed.call else None

    @property
    def max_abs_error(self) -> float | None:
        """The largest absolute error over all outputs; None if nothing was compared."""
        outputs = self.verification.outputs if self.verification else ()
        errors = (output.max_abs_error for output in outputs)
        return max((error for error in errors if error is not None), default=None)

    def with_deployment(self, deployment: Deployment) -> Self:
        """Return the row with the verdict and the artifact of a deployment."""
        verification, artifact = deployment.verification, deployment.artifact
        manifest, notes = artifact.manifest, deployment.notes
        if deployment.is_elsewhere:
            notes = (*notes, f"not measured: the engine is built for {manifest.built_for}")
        return msgspec.structs.replace(
            self,
            # Without a requested precision, the backend's default was used.
            precision=manifest.requested_precision or self.precision,
            verdict=verification.verdict,
            reason="" if verification.verdict == "verified" else verification.summary(),
            verification=verification,
            artifact=str(artifact.path),
            size=sum(file.size for file in manifest.files),
            notes=(*notes, *verification.fallbacks),
            receipt=manifest.receipt,
        )

    def with_error(self, err: EnginebayError) -> Self:
        """Return the row with the reason of a failed deployment."""
        row = msgspec.structs.replace(self, verdict="failed", reason=str(err))
        if isinstance(err, NotVerifiedError):
            verification = err.verdict
            return msgspec.structs.replace(
                row, verdict=verification.verdict, verification=verification, receipt=err.receipt
            )
        return msgspec.structs.replace(row, hint=err.hint or "")


class Comparison(
    Result, msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="comparison"
):
    """The result of :func:`enginebay_lab.compare`.

    Attributes:
        model: The model's description.
        reference: What the artifacts were verified against, such as PyTorch; empty if no engine
            was built.
        rows: One row for each backend, precision and combination of parameters, in the requested
            order.
        machine: The machine of the benchmark; None if no artifact was measured.
        notes: Reasons why the measurements of the benchmark may be unreliable.
        command: The command or Python call that repeats the comparison.
    """

    model: str
    reference: str = ""
    rows: tuple[ComparisonRow, ...] = ()
    machine: Machine | None = None
    notes: tuple[str, ...] = ()
    command: str = ""

    @property
    def verified(self) -> tuple[ComparisonRow, ...]:
        """The rows whose artifacts are verified."""
        return tuple(row for row in self.rows if row.verdict == "verified")

    @property
    def fastest(self) -> tuple[ComparisonRow, ...]:
        """The fastest verified row, then the verified rows that are not measurably slower."""
        speeds = [row.speed for row in self.verified if row.speed]
        rows = {row.artifact: row for row in self.verified}
        return tuple(rows[speed.artifact] for speed in select_fastest(speeds))

    def __repr__(self) -> str:
        return f"<Comparison of {self.model}, rows: {len(self.rows)}>"

    def blocks(self) -> Iterator[Block]:
        """Yield what the command prints: a table, the reasons of failures, and the fastest rows."""
        is_measured = any(row.speed for row in self.rows)
        figures = ("CALL", "ITEMS/S", "LOAD", "MEMORY") if is_measured else ()
        header = ("BACKEND", "PRECISION", "VERDICT", "MAX ERROR", "SIZE", "DEPLOY", *figures)
        rows = [
            (*_verdict_cells(row), *(_speed_cells(row) if is_measured else ())) for row in self.rows
        ]
        yield Table(header, rows, right=header[3:])
        yield ""
        folders = {str(Path(row.artifact).parent) for row in self.rows if row.artifact}
        yield Fields(
            (
                ("reference", self.reference),
                *describe_engines(self.rows),
                *(line for row in self.rows for line in _reason_lines(row)),
                ("fastest", _describe_fastest(self)),
                *(("note", note) for note in self.notes),
                ("folder", ", ".join(short_path(Path(folder)) for folder in folders)),
            )
        )

    def save(self, folder: Path) -> None:
        """Write the result to ``comparison.json`` in a folder, with an atomic rename."""
        data = msgspec.json.format(msgspec.json.encode(self), indent=2)
        write_whole(folder / ROWS_FILE, data + b"\n")


def describe_engines(rows: Sequence[ComparisonRow]) -> Iterator[tuple[str, str]]:
    """Yield (label, engine) pairs of the backends that ran several engines, such as providers."""
    engines: dict[str, dict[tuple[str, str], None]] = {}  # as ordered sets, by backend
    for row in rows:
        if ran := row.receipt:
            label = row.backend + describe_params(row.params)
            engine = f"{ran.engine} on {ran.provider or ran.device}"
            engines.setdefault(row.backend, {})[label, engine] = None
    for pairs in engines.values():
        if len({engine for _, engine in pairs}) > 1:
            yield from pairs


def _describe_fastest(comparison: Comparison) -> str:
    labels = [row.label for row in comparison.fastest]
    if not labels:
        return ""
    noise = "equally fast within the noise, " if len(labels) > 1 else ""
    return f"{', '.join(labels)}, {noise}among the verified"


def _reason_lines(row: ComparisonRow) -> Iterator[tuple[str, str]]:
    if row.reason:
        yield from ((row.label, line) for line in row.reason.splitlines())
    elif row.verification:
        yield from ((row.label, text) for text in row.verification.fallbacks)
    if row.speed and row.speed.failure:
        yield row.label, f"the artifact could not be measured: {row.speed.failure}"
    if row.hint:
        yield row.label, f"hint: {row.hint}"


def _verdict_cells(row: ComparisonRow) -> tuple[str, ...]:
    return (
        row.backend + describe_params(row.params),
        row.precision_text or "-",
        row.verdict,
        "-" if row.max_abs_error is None else f"{row.max_abs_error:.2g}",
        "-" if row.size is None else human_size(row.size),
        human_seconds(row.seconds) if row.seconds else "-",
    )


def _speed_cells(row: ComparisonRow) -> tuple[str, ...]:
    speed = row.speed
    if speed is None or speed.call is None:
        return ("-",) * 4
    return (
        speed.describe_call(),
        speed.describe_items_per_second(),
        "-" if speed.load is None else human_seconds(speed.load),
        "-" if speed.peak_memory is None else human_size(speed.peak_memory),
    )
