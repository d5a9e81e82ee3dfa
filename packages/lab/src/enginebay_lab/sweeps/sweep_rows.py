"""The result of a sweep: a row for each cell (one model on one backend at one precision)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from enginebay.commands import Fields, Result, Table, human_seconds, human_size
from enginebay.environment import EnvReport
from enginebay_lab.comparison.comparison import ComparisonRow, describe_engines
from enginebay_lab.evaluation.evaluation_rows import EvaluationRow
from enginebay_lab.measurement.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from enginebay.commands import Block
    from enginebay_lab.sweeps.cells import Cell

#: The ``kind`` of these rows in a file of rows.
ROW_KIND = "sweep row"

#: The maximum number of notes to show; the rows contain all notes.
_MAX_NOTES = 8


class SweepRow(ComparisonRow, frozen=True, kw_only=True):
    """The result of a sweep cell (one model, backend and precision).

    It has the fields of :class:`enginebay_lab.ComparisonRow`, and the following.

    Attributes:
        key: The cell's key.
        model: The model, as the cell names it.
        fault: The failure of the machine, not of the model, that prevented a result: ``worker
            died``, ``no answer``, ``time limit``, ``crashed``, ``backend`` (the machine cannot use
            the backend), ``other version``, ``not seen`` (a file is missing or different),
            ``disk`` (the disk is full or read-only) or ``damaged`` (the reply or the artifact);
            empty if there is a result. The verdict of a cell with a fault is ``lost``, and
            ``--resume`` runs the cell again.
        host: The name of the machine that ran the cell.
        machine: The hardware and the load of that machine.
        versions: The versions on that machine, by package: the backend's plugin, its engine,
            torch.
        environment: The result of ``check-env`` for the backend on that machine.
        files: A digest of the cell's config and files at the time of the run: ``--resume`` runs the
            cell again if they have changed.
        digest: The digest of the artifact's manifest, which contains the digest of every file.
        attempts: How often the cell was started: more than once if a worker died.
        metrics: The artifact's metrics.
        max_drop: By how much a metric may be worse than PyTorch's, as the cell specifies.
    """

    key: str
    model: str
    fault: str = ""
    host: str = ""
    machine: Machine | None = None
    versions: dict[str, str] = {}
    environment: EnvReport | None = None
    files: str = ""
    digest: str = ""
    attempts: int = 1
    metrics: tuple[EvaluationRow, ...] = ()
    max_drop: float | None = None

    @classmethod
    def of(cls, cell: Cell, verdict: str) -> SweepRow:
        """Return a row with the fields of a sweep cell and a verdict, but without a result."""
        return cls(
            key=cell.key,
            model=cell.model,
            backend=cell.backend,
            precision=cell.precision,
            params=cell.params,
            max_drop=cell.max_drop,
            verdict=verdict,
        )

    @property
    def label(self) -> str:
        """The name of the row in messages: ``net.py:build on openvino fp16 threads=2``."""
        return f"{self.model} on {super().label}"


class Sweep(Result, msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="sweep"):
    """The result of :func:`enginebay_lab.sweep`.

    Attributes:
        rows: A row for each cell (one model, backend and precision), in the order of the cells.
        regressions: A sentence for each regression since the baseline.
        judged: The keys of the cells with a result in the baseline. Of these cells, only
            regressions are failures; other problems existed in the baseline already.
        notes: Notes on the results, such as versions that differ between machines.
        command: The command that repeats the sweep; empty for a sweep that was called in Python.
    """

    rows: tuple[SweepRow, ...] = ()
    regressions: tuple[str, ...] = ()
    judged: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    command: str = ""

    def __repr__(self) -> str:
        return f"<Sweep of {len(self.rows)} cells, {len(self.failures)} failures>"

    def blocks(self) -> Iterator[Block]:
        """Yield a table of rows for each machine, and the reasons of rows that are not verified."""
        for host, rows in self.hosts.items():
            yield from _host_blocks(host, rows)
        notes = (("note", note) for note in (*self.notes, *_row_notes(self.rows)))
        yield Fields((*_group_reasons(self.rows), *describe_engines(self.rows), *notes))

    @property
    def failures(self) -> tuple[str, ...]:
        """One sentence for each reason to stop a release.

        Reasons are a verdict that does not pass, a metric that is worse than PyTorch's by more than
        ``max_drop``, and a regression since the baseline (an earlier sweep). If the baseline has a
        result of the same cell, only a regression is a reason: other problems existed already.
        """
        failed = [
            f"{row.label} is {row.verdict}" + (f": {row.reason}" if row.reason else "")
            for row in self.wrong
        ]
        return (*failed, *self.drops, *self.regressions)

    @property
    def wrong(self) -> tuple[SweepRow, ...]:
        """The rows whose verdict does not pass.

        Rows for which the baseline (an earlier sweep) has a result are left out.
        """
        # An engine that is built for another machine is unverified, but has an artifact: it passes.
        return tuple(
            row
            for row in self.rows
            if row.key not in self.judged
            and row.verdict != "verified"
            and (row.verdict != "unverified" or row.artifact is None)
        )

    @property
    def drops(self) -> tuple[str, ...]:
        """One sentence for each metric that has no value, or a too large drop from PyTorch's.

        Rows for which the baseline (an earlier sweep) has a result are left out.
        """
        labelled = (
            (row, msgspec.structs.replace(metric, artifact=row.label))
            for row in self.rows
            if row.key not in self.judged
            for metric in row.metrics
        )
        return tuple(text for row, metric in labelled if (text := metric.failure(row.max_drop)))

    @property
    def hosts(self) -> dict[str, list[SweepRow]]:
        """The rows by the machine that ran them; only speeds on the same machine are comparable."""
        hosts: dict[str, list[SweepRow]] = {}
        for row in self.rows:
            hosts.setdefault(row.host, []).append(row)
        return hosts


def _host_blocks(host: str, rows: Sequence[SweepRow]) -> Iterator[Block]:
    """Yield the hardware of one machine, and a table of the rows that it ran."""
    machine = next((row.machine for row in rows if row.machine), None)
    hardware = f" ({machine.processor}, {machine.cores} cores)" if machine else ""
    yield Fields([("machine", f"{host or 'unknown'}{hardware}")])
    columns = {
        "MODEL": [row.model for row in rows],
        # Backend, precision and parameters in one column, to fit a terminal of 80 characters.
        "BACKEND": [row.label.removeprefix(f"{row.model} on ") for row in rows],
        "VERDICT": [row.verdict for row in rows],
        "MAX ERROR": [
            "-" if row.max_abs_error is None else f"{row.max_abs_error:.2g}" for row in rows
        ],
        "SIZE": ["-" if row.size is None else human_size(row.size) for row in rows],
        "DEPLOY": [human_seconds(row.seconds) if row.seconds else "-" for row in rows],
        "CALL": [row.speed.describe_call() if row.speed else "-" for row in rows],
        "DROP": [", ".join(_format_drops(row)) or "-" for row in rows],
    }
    optional = ("CALL", "DROP")
    shown = [name for name in columns if name not in optional or set(columns[name]) != {"-"}]
    cells = list(zip(*(columns[name] for name in shown), strict=True))
    yield Table(shown, cells, right=("MAX ERROR", "SIZE", "DEPLOY", "CALL"))
    yield ""


def _row_notes(rows: Sequence[SweepRow]) -> Iterator[str]:
    """Yield the most frequent notes of the rows, without duplicates."""
    counts = Counter(note for row in rows for note in row.notes)
    for note, count in counts.most_common(_MAX_NOTES):
        yield note if count == 1 else f"{note} ({count} cells)"
    if len(counts) > _MAX_NOTES:
        yield f"{len(counts) - _MAX_NOTES} more notes are in the rows"


def _format_drops(row: SweepRow) -> Iterator[str]:
    """Yield a text for each metric: the drop from PyTorch's value or, if unknown, the value."""
    for metric in row.metrics:
        if metric.drop is not None:
            yield f"{metric.metric} {metric.drop:.3g}"
        else:
            yield f"{metric.metric} {'-' if metric.value is None else f'= {metric.value:.6g}'}"


def _group_reasons(rows: Iterable[SweepRow]) -> Iterator[tuple[str, str]]:
    """Yield (label, reason) pairs of the rows; rows with the same reasons are listed once."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        groups.setdefault(tuple(_row_reasons(row)), []).append(row.label)
    for reasons, labels in groups.items():
        more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
        for text in reasons:
            yield f"{labels[0]}{more}", text


def _row_reasons(row: SweepRow) -> Iterator[str]:
    yield from row.reason.splitlines()
    if row.speed and row.speed.failure:
        yield f"its speed could not be measured: {row.speed.failure}"
    if row.attempts > 1:
        yield f"started {row.attempts} times, because workers died"
    if row.hint:
        yield f"hint: {row.hint}"
