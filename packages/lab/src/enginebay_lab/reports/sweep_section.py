"""Describes a sweep for a report's page: verdicts, measurements by host, and lost cells.

A sweep cell is one model on one backend at one precision. A cell is lost if a fault of a machine,
such as a full disk, prevented its result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from enginebay.commands import human_error, human_seconds, human_size
from enginebay_lab.comparison.comparison import describe_engines
from enginebay_lab.reports.tables import (
    SIGNS,
    PageTable,
    TableCell,
    make_table,
    metric_cell,
    number_cell,
)
from enginebay_lab.shared_params import describe_params
from enginebay_lab.sweeps.baseline import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay_lab.sweeps.sweep_rows import Sweep, SweepRow

#: With more columns of engines, a verdict is shown as a sign instead of a badge.
_MAX_BADGE_COLUMNS = 4
#: The verdict of a cell without a result.
_LOST = "lost"


def describe_sweep(sweep: Sweep) -> dict[str, object]:
    """Return the values that the page's HTML template shows about a sweep."""
    lost = [row for row in sweep.rows if row.verdict == _LOST]
    return {
        "regressions": sweep.regressions,
        "tables": [_verdict_table(sweep.rows), *_host_tables(sweep), _lost_table(lost)],
        "problems": [
            row for row in sweep.rows if row.verdict != _LOST and (row.reason or row.hint)
        ],
        "notes": sweep.notes,
        "hosts": [
            (_host_title(host), facts)
            for host, rows in sorted(sweep.hosts.items())
            if (facts := list(_host_facts(rows)))
        ],
    }


def summarize_sweep(sweep: Sweep) -> Iterator[str]:
    """Yield sentences that count the regressions, verdicts, models and machines of a sweep."""
    if count := len(sweep.regressions):
        yield f"{count} regression{'s' * (count > 1)} since the baseline."
    counts = dict.fromkeys((*VERDICTS, _LOST), 0)
    for row in sweep.rows:
        counts[row.verdict] = counts.get(row.verdict, 0) + 1
    others = [f"{count} {name}" for name, count in counts.items() if count and name != VERDICTS[0]]
    verified = f"{counts[VERDICTS[0]]} of {len(sweep.rows)} verified"
    models = len({row.model for row in sweep.rows})
    hosts = len({row.host for row in sweep.rows if row.host})
    where = f", on {hosts} machines" if hosts > 1 else ""
    yield f"{', '.join([verified, *others])}: {models} model{'s' * (models > 1)}{where}."


def _verdict_table(rows: Sequence[SweepRow]) -> PageTable:
    """Return a table of verdicts, with a row for each model and a column for each engine.

    The table is empty for a single model or engine.
    """
    models = dict.fromkeys(row.model for row in rows)
    row_engines = _engine_labels(rows)
    engines = dict.fromkeys(row_engines)
    verdicts: dict[tuple[str, str], str] = {}
    for row, engine in zip(rows, row_engines, strict=True):
        key = row.model, engine
        verdicts[key] = max(verdicts.get(key, row.verdict), row.verdict, key=_verdict_rank)
    kind = "sign" if len(engines) > _MAX_BADGE_COLUMNS else "verdict"
    cells = [
        [
            TableCell(model),
            *(TableCell(verdicts.get((model, engine), ""), kind=kind) for engine in engines),
        ]
        for model in models
    ]
    is_useful = len(models) > 1 and len(engines) > 1
    shown = (verdict for verdict in SIGNS if verdict in verdicts.values())
    signs = ", ".join(f"{SIGNS[verdict]} {verdict}" for verdict in shown)
    caption = f"Verdicts: {signs}" if kind == "sign" else "Verdicts"
    return PageTable(caption, ("Model", *engines), cells if is_useful else ())


def _engine_label(row: SweepRow) -> str:
    return f"{row.backend} {row.precision}".rstrip() + describe_params(row.params)


def _engine_labels(rows: Sequence[SweepRow]) -> list[str]:
    """Return the name of each row's engine: backend, precision and parameters."""
    # A lost cell does not contain the precision that its backend would have chosen. If the other
    # cells of the backend have only one precision, that precision is used.
    bare = [_engine_label(msgspec.structs.replace(row, precision="")) for row in rows]
    chosen: dict[str, set[str]] = {}
    for row, backend in zip(rows, bare, strict=True):
        if row.precision:
            chosen.setdefault(backend, set()).add(_engine_label(row))
    return [
        _engine_label(row)
        if row.precision or len(chosen.get(backend, ())) != 1
        else min(chosen[backend])
        for row, backend in zip(rows, bare, strict=True)
    ]


def _verdict_rank(verdict: str) -> int:
    # Of several cells the worst verdict is shown; a lost cell counts least.
    return VERDICTS.index(verdict) if verdict in VERDICTS else -1


def _host_tables(sweep: Sweep) -> Iterator[PageTable]:
    """Yield a table of errors, metrics and speeds for each host."""
    # One table per host: figures of different hosts are not comparable.
    for host, rows in sorted(sweep.hosts.items()):
        measured = [row for row in rows if row.verdict != _LOST]
        metrics = list(dict.fromkeys(m.metric for row in measured for m in row.metrics))
        columns = (
            *("Model", "Backend", "Verdict", "Max error", *metrics),
            *("Call", "95 % interval", "Size", "Took", "Attempts"),
        )
        yield make_table(
            f"Figures of {_host_title(host)}",
            columns,
            [_figure_cells(row, metrics) for row in measured],
        )


def _figure_cells(row: SweepRow, metrics: Sequence[str]) -> list[TableCell]:
    values = {metric.metric: metric for metric in row.metrics}
    call = row.speed.call if row.speed else None
    return [
        TableCell(row.model),
        TableCell(_engine_label(msgspec.structs.replace(row, precision=row.precision_text))),
        TableCell(row.verdict, kind="verdict"),
        number_cell(row.max_abs_error, human_error),
        *(metric_cell(values.get(name)) for name in metrics),
        number_cell(call.median if call else None, human_seconds),
        TableCell(f"{human_seconds(call.low)} – {human_seconds(call.high)}" if call else ""),
        number_cell(row.size, human_size),
        number_cell(row.seconds or None, lambda seconds: f"{seconds:.1f} s"),
        number_cell(row.attempts if row.attempts > 1 else None, str),
    ]


def _lost_table(rows: Sequence[SweepRow]) -> PageTable:
    """Return a table with the fault and the reason of each lost sweep cell (without a result)."""
    columns = ("Model", "Backend", "Fault", "Host", "Attempts", "Reason")
    return make_table(
        "Lost: no result",
        columns,
        [
            [
                TableCell(row.model),
                TableCell(_engine_label(row)),
                TableCell(row.fault),
                TableCell(row.host),
                number_cell(row.attempts if row.attempts > 1 else None, str),
                TableCell(f"{row.reason}; hint: {row.hint}" if row.hint else row.reason),
            ]
            for row in rows
        ],
    )


def _host_facts(rows: Sequence[SweepRow]) -> Iterator[tuple[str, str]]:
    """Yield (name, value) pairs about a host and its versions, without duplicates."""
    facts: dict[tuple[str, str], None] = {}  # as an ordered set
    for machine in (row.machine for row in rows if row.machine):
        facts |= dict.fromkeys(machine.facts())
    for row in rows:
        facts |= dict.fromkeys(row.versions.items())
        problem = row.environment.failed if row.environment else None
        if problem:
            facts[row.backend, f"{problem.name}: {problem.found}"] = None
    yield from (facts | dict.fromkeys(describe_engines(rows)))


def _host_title(host: str) -> str:
    return host or "unknown machine"
