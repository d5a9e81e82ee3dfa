"""The parts of the page that show sweeps: verdicts at a glance, figures by host, what was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.commands import human_error, human_seconds, human_size
from enginebay_lab.reports.tables import SIGNS, Table, TableCell, metric_cell, number, table
from enginebay_lab.sweeps.baseline import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from enginebay_lab.sweeps.sweep_rows import Sweep, SweepRow

#: With more engines than that, a verdict is its sign.
_WIDE = 4
#: The verdict of a cell without a result.
_LOST = "lost"


def parts(sweep: Sweep) -> dict[str, Any]:
    """The parts of one sweep, for the template."""
    lost = [row for row in sweep.rows if row.verdict == _LOST]
    return {
        "regressions": sweep.regressions,
        "tables": [_glance(sweep.rows), *_by_host(sweep), _lost(lost)],
        "problems": [
            row for row in sweep.rows if row.verdict != _LOST and (row.reason or row.hint)
        ],
        "notes": sweep.notes,
        "hosts": [
            (_name(host), facts)
            for host, rows in sorted(sweep.hosts.items())
            if (facts := list(_host(rows)))
        ],
    }


def summary(sweep: Sweep) -> Iterator[str]:
    """How much is worse, how many cells have which verdict, and where they ran."""
    if sweep.regressions:
        yield f"{len(sweep.regressions)} worse than in the baseline."
    counts = dict.fromkeys((*VERDICTS, _LOST), 0)
    for row in sweep.rows:
        counts[row.verdict] = counts.get(row.verdict, 0) + 1
    others = [f"{count} {name}" for name, count in counts.items() if count and name != VERDICTS[0]]
    verified = f"{counts[VERDICTS[0]]} of {len(sweep.rows)} verified"
    models = len({row.model for row in sweep.rows})
    hosts = len({row.host for row in sweep.rows if row.host})
    where = f", on {hosts} machines" if hosts > 1 else ""
    yield f"{', '.join([verified, *others])}: {models} model{'s' * (models > 1)}{where}."


def _glance(rows: Sequence[SweepRow]) -> Table:
    """The verdicts, a row for each model and a column for each engine; empty for one model."""
    models = dict.fromkeys(row.model for row in rows)
    named = _engines(rows)
    engines = dict.fromkeys(named)
    found: dict[tuple[str, str], str] = {}
    for row, engine in zip(rows, named, strict=True):
        place = row.model, engine
        found[place] = max(found.get(place, row.verdict), row.verdict, key=_rank)
    kind = "sign" if len(engines) > _WIDE else "verdict"
    cells = [
        [TableCell(model), *(TableCell(found.get((model, one), ""), kind=kind) for one in engines)]
        for model in models
    ]
    several = len(models) > 1 and len(engines) > 1
    known = (verdict for verdict in SIGNS if verdict in found.values())
    signs = ", ".join(f"{SIGNS[verdict]} {verdict}" for verdict in known)
    caption = f"Verdicts: {signs}" if kind == "sign" else "Verdicts"
    return Table(caption, ("Model", *engines), cells if several else ())


def _engine(row: SweepRow) -> str:
    params = "".join(f" {name}={value}" for name, value in row.params.items())
    return f"{row.backend} {row.precision}".rstrip() + params


def _engines(rows: Sequence[SweepRow]) -> list[str]:
    """The engine of each row.

    A cell without a result does not say which precision its backend would have chosen: where its
    other cells have only one, it is that.
    """
    bare = [_engine(msgspec.structs.replace(row, precision="")) for row in rows]
    chosen: dict[str, set[str]] = {}
    for row, backend in zip(rows, bare, strict=True):
        if row.precision:
            chosen.setdefault(backend, set()).add(_engine(row))
    return [
        _engine(row) if row.precision or len(chosen.get(backend, ())) != 1 else min(chosen[backend])
        for row, backend in zip(rows, bare, strict=True)
    ]


def _rank(verdict: str) -> int:
    """The worst of several counts; a lost cell says nothing of the others."""
    return VERDICTS.index(verdict) if verdict in VERDICTS else -1


def _by_host(sweep: Sweep) -> Iterator[Table]:
    """The figures, a table for each host, since they are compared within one only."""
    for host, rows in sorted(sweep.hosts.items()):
        kept = [row for row in rows if row.verdict != _LOST]
        metrics = list(dict.fromkeys(metric.metric for row in kept for metric in row.metrics))
        columns = (
            *("Model", "Backend", "Verdict", "Max error", *metrics),
            *("Call", "95 % interval", "Size", "Took", "Attempts"),
        )
        yield table(f"Figures of {_name(host)}", columns, [_figures(row, metrics) for row in kept])


def _figures(row: SweepRow, metrics: Sequence[str]) -> list[TableCell]:
    values = {metric.metric: metric for metric in row.metrics}
    call = row.speed.call if row.speed else None
    return [
        TableCell(row.model),
        TableCell(_engine(row)),
        TableCell(row.verdict, kind="verdict"),
        number(row.max_abs_error, human_error),
        *(metric_cell(values.get(name)) for name in metrics),
        number(call.median if call else None, human_seconds),
        TableCell(f"{human_seconds(call.low)} – {human_seconds(call.high)}" if call else ""),
        number(row.size, human_size),
        number(row.seconds, lambda seconds: f"{seconds:.1f} s"),
        number(row.attempts if row.attempts > 1 else None, str),
    ]


def _lost(rows: Sequence[SweepRow]) -> Table:
    """What was lost, and why."""
    columns = ("Model", "Backend", "Fault", "Host", "Attempts", "Reason")
    return table(
        "Lost: no result",
        columns,
        [
            [
                TableCell(row.model),
                TableCell(_engine(row)),
                TableCell(row.fault),
                TableCell(row.host),
                number(row.attempts if row.attempts > 1 else None, str),
                TableCell(f"{row.reason}; hint: {row.hint}" if row.hint else row.reason),
            ]
            for row in rows
        ],
    )


def _host(rows: Sequence[SweepRow]) -> Iterator[tuple[str, str]]:
    """What is known of a host, each fact once."""
    found: dict[tuple[str, str], None] = {}
    for machine in (row.machine for row in rows if row.machine):
        found |= dict.fromkeys(machine.facts())
    for row in rows:
        found |= dict.fromkeys(row.versions.items())
        problem = row.environment.failed if row.environment else None
        if problem:
            found[row.backend, f"{problem.name}: {problem.found}"] = None
    yield from found


def _name(host: str) -> str:
    return host or "a machine without a name"
