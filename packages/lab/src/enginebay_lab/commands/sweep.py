"""``enginebay sweep``: deploy many models on many backends, on this machine or a cluster."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.commands import (
    human_seconds,
    human_size,
    print_fields,
    print_message,
    print_next,
    print_table,
    repeatable_command,
    short_path,
    stdout_on_stderr,
    verdict_word,
)
from enginebay.errors import UsageError
from enginebay_lab.commands.executor_flags import add_executor, executor
from enginebay_lab.commands.results import add_report, check_report, exit_code, show

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Iterator, Sequence

    from enginebay_lab.sweeps.sweep_rows import Sweep, SweepRow

EXAMPLES = (
    "enginebay sweep sweep.toml --output swept",
    "enginebay sweep sweep.toml --output swept --resume",
)

#: As many notes of the rows as are printed.
_NOTES = 8


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    parser.usage = "enginebay sweep SWEEP [--output FOLDER] [--scheduler ADDRESS] [flags]"
    parser.add_argument(
        "sweep",
        metavar="SWEEP",
        type=Path,
        help="a file (.toml, .json, .yaml, .py) with models, backends, precisions and parameters",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="keep the artifacts in this folder, a row for each cell, written as it ends, and the "
        "report",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with what the folder of --output holds: only cells that it lacks, or that "
        "were lost with their machine, are run",
    )
    add_executor(parser, "the cells", "as its cores and memory allow, one where they are measured")
    parser.add_argument(
        "--baseline",
        type=Path,
        metavar="ROWS.jsonl",
        help="fail with exit code 1 where a cell is worse than in these rows of an earlier sweep",
    )
    add_report(parser)


def run(args: Namespace) -> int:
    """Sweep; a cell that is not verified, a drop or a regression fails with exit code 1."""
    from enginebay.commands import progress
    from enginebay_lab.sweeps.matrix import read_cells
    from enginebay_lab.sweeps.rows_file import ROWS_FILE
    from enginebay_lab.sweeps.run_sweep import sweep

    if args.resume and args.output is None:
        raise UsageError("--resume has no rows to go on with", hint="add --output FOLDER")
    args.report = args.report or _own_report(args.output)
    check_report(args)
    cells = read_cells(args.sweep)
    try:
        with executor(args) as workers, progress() as watch, stdout_on_stderr():
            found = sweep(
                cells,
                workers,
                output=args.output,
                resume=args.resume,
                baseline=args.baseline,
                watch=watch,
                command=repeatable_command(args.argv),
            )
    except KeyboardInterrupt:
        if args.output is not None and args.output.is_dir():
            rows = short_path(args.output.absolute() / ROWS_FILE)
            print_message(f"rows so far: {rows}; go on with: {_resumed(args)}")
        raise
    show(args, found, partial(_print, args), failures=list(found.failures))
    return exit_code(_errors(found))


def _own_report(output: Path | None) -> Path | None:
    """The page in the folder of ``--output``, where what pages are made with is installed."""
    from enginebay.errors import MissingDependencyError
    from enginebay_lab.reports.saving import check_packages

    if output is None or (output.exists() and not output.is_dir()):
        return None
    try:
        check_packages()
    except MissingDependencyError:
        return None
    return output / "report.html"


def _resumed(args: Namespace) -> str:
    """The command line that goes on."""
    words = args.argv if args.resume else [*args.argv, "--resume"]
    return shlex.join(["enginebay", *words])


def _print(args: Namespace, found: Sweep) -> None:
    for host, rows in found.hosts.items():
        _print_host(host, rows)
    folder = "" if args.output is None else short_path(args.output.absolute())
    print_fields(
        (
            *_all_reasons(found.rows),
            *(("note", note) for note in (*found.notes, *_row_notes(found.rows))),
            ("folder", folder),
        )
    )
    if folder and any(row.fault for row in found.rows):
        print_next([_resumed(args)])


def _row_notes(rows: Sequence[SweepRow]) -> Iterator[str]:
    """The notes of the rows, each once."""
    counts = Counter(note for row in rows for note in row.notes)
    for note, count in counts.most_common(_NOTES):
        yield note if count == 1 else f"{note} ({count} cells)"
    if len(counts) > _NOTES:
        yield f"{len(counts) - _NOTES} more in the rows"


def _print_host(host: str, rows: Sequence[SweepRow]) -> None:
    """Print the rows of one machine: figures of several are never side by side."""
    machine = next((row.machine for row in rows if row.machine), None)
    described = f" ({machine.processor}, {machine.cores} cores)" if machine else ""
    print_fields([("machine", f"{host or 'none known'}{described}")])
    columns = {
        "MODEL": [row.model for row in rows],
        # In one column, which a terminal of 80 characters has place for.
        "BACKEND": [row.label.removeprefix(f"{row.model} on ") for row in rows],
        "VERDICT": [verdict_word(row.verdict) for row in rows],
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
    print_table(
        shown,
        zip(*(columns[name] for name in shown), strict=True),
        right=("MAX ERROR", "SIZE", "DEPLOY", "CALL"),
    )
    sys.stdout.write("\n")


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


def _errors(found: Sweep) -> Iterator[str]:
    """Why the sweep fails: how many cells are wrong, and each drop and regression."""
    wrong = Counter(row.verdict for row in found.wrong)
    if wrong:
        counts = ", ".join(f"{count} {verdict}" for verdict, count in wrong.items())
        yield f"{wrong.total()} of {len(found.rows)} cells failed: {counts}"
    yield from found.drops
    yield from found.regressions
