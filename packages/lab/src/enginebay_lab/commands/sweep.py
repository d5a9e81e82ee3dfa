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
from enginebay_lab.commands.executor_flags import add_executor_flags, open_executor
from enginebay_lab.commands.result_output import (
    add_report_flag,
    check_report_flag,
    print_result,
    report_failures,
)

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
        help="the folder for the artifacts, the report and the result rows; the row of a sweep "
        "cell (one model, backend and precision) is written as soon as the cell ends",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue the sweep in the folder of --output: run only the sweep cells (one model, "
        "backend and precision) that have no result row, that failed because of a machine, or "
        "whose files have changed",
    )
    add_executor_flags(parser, "the sweep", "as cores and memory allow; 1 if speed is measured")
    parser.add_argument(
        "--baseline",
        type=Path,
        metavar="ROWS.jsonl",
        help="fail with exit code 1 if a result is worse than in the earlier sweep that wrote "
        "this file of result rows",
    )
    add_report_flag(parser)


def run(args: Namespace) -> int:
    """Run the sweep, and print a row for each combination of model, backend and precision.

    Returns:
        1 if a verdict does not pass, a metric dropped too much, or a regression was found; else 0.
    """
    from enginebay.commands import progress
    from enginebay_lab.sweeps.read_cells import read_cells
    from enginebay_lab.sweeps.rows_file import ROWS_FILE
    from enginebay_lab.sweeps.run_sweep import sweep

    if args.resume and args.output is None:
        raise UsageError(
            "--resume requires the folder of an earlier sweep", hint="add --output FOLDER"
        )
    args.report = args.report or _default_report(args.output)
    check_report_flag(args)
    cells = read_cells(args.sweep)  # all mistakes in the file are found before anything runs
    try:
        with open_executor(args) as workers, progress() as watch, stdout_on_stderr():
            swept = sweep(
                cells,
                workers,
                output=args.output,
                resume=args.resume,
                baseline=args.baseline,
                watch=watch,
                command=repeatable_command(args.argv),
            )
    except KeyboardInterrupt:
        # The folder does not exist if Ctrl-C was pressed before the sweep began.
        if args.output is not None and args.output.is_dir():
            rows = short_path(args.output.absolute() / ROWS_FILE)
            print_message(f"rows so far: {rows}; continue with: {_resume_command(args)}")
        raise
    print_result(args, swept, failures=list(swept.failures))
    if args.output is not None and not args.json:
        _print_folder(args.output, swept, _resume_command(args))
    return report_failures(_list_errors(swept))


def _default_report(output: Path | None) -> Path | None:
    """Return the path of the report in the folder ``output``; None if there is no folder."""
    # For a file instead of a folder, sweep() raises an error that names --output.
    if output is None or (output.exists() and not output.is_dir()):
        return None
    return output / "report.html"


def _resume_command(args: Namespace) -> str:
    """Return the command line that resumes the sweep."""
    words = args.argv if args.resume else [*args.argv, "--resume"]
    return shlex.join(["enginebay", *words])


def _print_folder(folder: Path, swept: Sweep, resume_command: str) -> None:
    print_fields([("folder", short_path(folder.absolute()))])
    if any(row.fault for row in swept.rows):
        print_next([resume_command])


def _list_errors(swept: Sweep) -> Iterator[str]:
    """Yield as text: the number of failed sweep cells, each dropped metric, each regression."""
    failed = Counter(row.verdict for row in swept.wrong)
    if failed:
        counts = ", ".join(f"{count} {verdict}" for verdict, count in failed.items())
        yield f"{failed.total()} of {len(swept.rows)} cells failed: {counts}"
    yield from swept.drops
    yield from swept.regressions
