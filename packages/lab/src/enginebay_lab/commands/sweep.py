"""``enginebay sweep``: deploy many models on many backends, on this machine or a cluster."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.commands import (
    print_fields,
    print_message,
    print_next,
    repeatable_command,
    short_path,
    stdout_on_stderr,
)
from enginebay.errors import UsageError
from enginebay_lab.commands.executor_flags import add_executor, executor
from enginebay_lab.commands.results import add_report, check_report, exit_code, show

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterator

    from enginebay_lab.sweeps.sweep_rows import Sweep

EXAMPLES = (
    "enginebay sweep sweep.toml --output swept",
    "enginebay sweep sweep.toml --output swept --resume",
)


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
    from enginebay_lab.sweeps.read_cells import read_cells
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
    show(args, found, failures=list(found.failures))
    if args.output is not None and not args.json:
        _print_folder(args.output, found, _resumed(args))
    return exit_code(_errors(found))


def _own_report(output: Path | None) -> Path | None:
    """The page in the folder of ``--output``, where what pages are made with is installed."""
    from enginebay.errors import MissingDependencyError
    from enginebay_lab.reports.output_files import check_packages

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


def _print_folder(folder: Path, found: Sweep, resumed: str) -> None:
    print_fields([("folder", short_path(folder.absolute()))])
    if any(row.fault for row in found.rows):
        print_next([resumed])


def _errors(found: Sweep) -> Iterator[str]:
    """Why the sweep fails: how many cells are wrong, and each drop and regression."""
    wrong = Counter(row.verdict for row in found.wrong)
    if wrong:
        counts = ", ".join(f"{count} {verdict}" for verdict, count in wrong.items())
        yield f"{wrong.total()} of {len(found.rows)} cells failed: {counts}"
    yield from found.drops
    yield from found.regressions
