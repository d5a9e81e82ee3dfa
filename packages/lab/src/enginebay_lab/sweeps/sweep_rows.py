"""What a sweep finds: a row for each cell."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay import Receipt
from enginebay.commands import Fields, Result, Table, human_seconds, human_size
from enginebay.environment import EnvReport
from enginebay_lab.comparison.comparison import ComparisonRow
from enginebay_lab.evaluation.evaluation_rows import EvaluationRow
from enginebay_lab.measurement.machine import Machine
from enginebay_lab.sweeps.cells import label

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from enginebay.commands import Block
    from enginebay_lab.sweeps.cells import Cell

#: What a row is called in a file of rows.
ROW_KIND = "sweep row"

#: Notes that are shown; the rows have them all.
_NOTES = 8


class SweepRow(ComparisonRow, frozen=True, kw_only=True):
    """One cell of a sweep: what :class:`enginebay_lab.ComparisonRow` has, and where it ran.

    Attributes:
        key: The cell's key.
        model: The model as it was named.
        params: The backend's parameters that the cell names.
        fault: Why there is no result, where the machine is to blame and not the model: ``worker
            died``, ``no answer``, ``time limit``, ``crashed``, ``backend``, ``other version``,
            ``not seen``, ``disk``, ``damaged``; empty where there is a result. ``--resume`` runs
            such a cell again. The verdict is ``lost`` then.
        host: The name of the machine that ran it.
        machine: The machine.
        versions: What is installed there, by distribution: the backend's plugin, its engine, torch.
        environment: The checks of the backend there.
        receipt: What the engine says that it ran.
        files: A digest of the files that the cell names and of its config, as they were when it
            ran: ``--resume`` runs it again where they have changed.
        digest: Of the artifact's manifest, which has the digest of every file.
        attempts: How often it was begun: more than once where a worker died.
        metrics: What the artifact was evaluated with.
        max_drop: How much worse than PyTorch's a metric may be, as the cell says it.
    """

    key: str
    model: str
    params: dict[str, Any] = {}
    fault: str = ""
    host: str = ""
    machine: Machine | None = None
    versions: dict[str, str] = {}
    environment: EnvReport | None = None
    receipt: Receipt | None = None
    files: str = ""
    digest: str = ""
    attempts: int = 1
    metrics: tuple[EvaluationRow, ...] = ()
    max_drop: float | None = None

    @classmethod
    def of(cls, cell: Cell, verdict: str) -> SweepRow:
        """Return a row that says which cell it is of, and no more than a verdict."""
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
        """The name in messages: ``net.py:build on openvino fp16 threads=2``."""
        return label(self.model, self.backend, self.precision, self.params)


class Sweep(Result, msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="sweep"):
    """The result of :func:`enginebay_lab.sweep`.

    Attributes:
        rows: One for each cell, in the order of the cells.
        regressions: What is worse than in the baseline, a sentence each.
        judged: The keys of the cells that the baseline has: they fail where they are worse there.
        notes: What limits the figures, a sentence each.
        command: What to type to sweep again; empty where it was called in Python.
    """

    rows: tuple[SweepRow, ...] = ()
    regressions: tuple[str, ...] = ()
    judged: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    command: str = ""

    def __repr__(self) -> str:
        return f"<Sweep of {len(self.rows)} cells, {len(self.failures)} failures>"

    def blocks(self) -> Iterator[Block]:
        """The rows of each machine, and why some are not verified."""
        for host, rows in self.hosts.items():
            yield from _host_blocks(host, rows)
        notes = (("note", note) for note in (*self.notes, *_row_notes(self.rows)))
        yield Fields((*_all_reasons(self.rows), *notes))

    @property
    def failures(self) -> tuple[str, ...]:
        """One sentence for each reason to stop a release.

        A cell without a verdict that passes, a metric further below PyTorch's than the cell allows,
        and whatever is worse than in the baseline. Cells that the baseline has fail by that alone:
        what was wrong there already is no news.
        """
        wrong = [
            f"{row.label} is {row.verdict}" + (f": {row.reason}" if row.reason else "")
            for row in self.wrong
        ]
        return (*wrong, *self.drops, *self.regressions)

    @property
    def wrong(self) -> tuple[SweepRow, ...]:
        """The rows without a verdict that passes, but for those that the baseline judges."""
        return tuple(
            row
            for row in self.rows
            if row.key not in self.judged
            and row.verdict != "verified"
            and (row.verdict != "unverified" or row.artifact is None)
        )

    @property
    def drops(self) -> tuple[str, ...]:
        """One sentence for each metric that has no value, or is too far below PyTorch's."""
        named = (
            (row, msgspec.structs.replace(metric, artifact=row.label))
            for row in self.rows
            if row.key not in self.judged
            for metric in row.metrics
        )
        return tuple(text for row, one in named if (text := one.failure(row.max_drop)))

    @property
    def hosts(self) -> dict[str, list[SweepRow]]:
        """The rows by the machine that ran them; figures are compared within one only."""
        found: dict[str, list[SweepRow]] = {}
        for row in self.rows:
            found.setdefault(row.host, []).append(row)
        return found


def _host_blocks(host: str, rows: Sequence[SweepRow]) -> Iterator[Block]:
    """The rows of one machine: figures of several are never side by side."""
    machine = next((row.machine for row in rows if row.machine), None)
    described = f" ({machine.processor}, {machine.cores} cores)" if machine else ""
    yield Fields([("machine", f"{host or 'none known'}{described}")])
    columns = {
        "MODEL": [row.model for row in rows],
        # In one column, which a terminal of 80 characters has place for.
        "BACKEND": [row.label.removeprefix(f"{row.model} on ") for row in rows],
        "VERDICT": [row.verdict for row in rows],
        "MAX ERROR": [
            "-" if row.max_abs_error is None else f"{row.max_abs_error:.2g}" for row in rows
        ],
        "SIZE": ["-" if row.size is None else human_size(row.size) for row in rows],
        "DEPLOY": [human_seconds(row.seconds) if row.seconds else "-" for row in rows],
        "CALL": ["-" if row.latency is None else human_seconds(row.latency) for row in rows],
        "DROP": [", ".join(_drops(row)) or "-" for row in rows],
    }
    optional = ("CALL", "DROP")
    shown = [name for name in columns if name not in optional or set(columns[name]) != {"-"}]
    cells = list(zip(*(columns[name] for name in shown), strict=True))
    yield Table(shown, cells, right=("MAX ERROR", "SIZE", "DEPLOY", "CALL"))
    yield ""


def _row_notes(rows: Sequence[SweepRow]) -> Iterator[str]:
    """The notes of the rows, each once."""
    counts = Counter(note for row in rows for note in row.notes)
    for note, count in counts.most_common(_NOTES):
        yield note if count == 1 else f"{note} ({count} cells)"
    if len(counts) > _NOTES:
        yield f"{len(counts) - _NOTES} more in the rows"


def _drops(row: SweepRow) -> Iterator[str]:
    """How much worse than PyTorch's each metric is, or the value where nothing is compared."""
    for metric in row.metrics:
        if metric.drop is not None:
            yield f"{metric.metric} {metric.drop:.3g}"
        else:
            yield f"{metric.metric} {'-' if metric.value is None else f'= {metric.value:.6g}'}"


def _all_reasons(rows: Iterable[SweepRow]) -> Iterator[tuple[str, str]]:
    """Why rows are not verified; what many rows have in common stands there once."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        alike.setdefault(tuple(_reasons(row)), []).append(row.label)
    for reasons, labels in alike.items():
        more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
        for text in reasons:
            yield f"{labels[0]}{more}", text


def _reasons(row: SweepRow) -> Iterator[str]:
    if row.reason:
        yield row.reason
    if row.speed and row.speed.failure:
        yield f"it could not be measured: {row.speed.failure}"
    if row.attempts > 1:
        yield f"begun {row.attempts} times, since workers died"
    if row.hint:
        yield f"hint: {row.hint}"
