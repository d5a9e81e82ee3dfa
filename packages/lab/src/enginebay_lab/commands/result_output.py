"""Prints a command's result and failures, and writes its report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.commands import (
    print_blocks,
    print_json,
    print_message,
    repeatable_command,
    short_path,
    styled,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable

    from enginebay.commands import Result


def add_report_flag(parser: ArgumentParser) -> None:
    """Add ``--report``."""
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="also write a report on the result: a page (.html), or the page's data (.json)",
    )


def check_report_flag(args: Namespace, *artifacts: object) -> None:
    """Check that the report of ``--report`` can be written, before anything is measured.

    Args:
        args: The parsed command line.
        artifacts: The artifacts that the report will contain.

    Raises:
        UsageError: The file cannot be written as a report, or the artifacts are of different
            models.
        ArtifactError: An artifact is damaged.
    """
    if args.report is None:
        return
    from enginebay_lab.reports.output_files import check_output
    from enginebay_lab.reports.record_collector import report

    check_output(args.report)
    if artifacts:  # raises if they are of different models
        report(*artifacts)


def print_result(args: Namespace, result: Result, *artifacts: object, **more: object) -> None:
    """Print a result, and write its report if ``--report`` is set.

    Args:
        args: The parsed command line.
        result: What the command measured or found.
        artifacts: Artifacts to include in the report.
        **more: Additional fields of the JSON document that ``--json`` prints.
    """
    if args.json:
        print_json(result.to_dict() | more)
    else:
        print_blocks(result.blocks())
    if args.report is not None:
        from enginebay_lab.reports.record_collector import report

        command = getattr(result, "command", "") or repeatable_command(args.argv)
        report(*artifacts, result, command=command).save(args.report)
        print_message(f"report: {short_path(args.report.absolute())}")


def report_failures(failures: Iterable[str]) -> int:
    """Print each failure on stderr, and return the exit code: 1 if there are any, else 0."""
    listed = list(failures)
    for failure in listed:
        print_message(f"{styled('error:', 'red', sys.stderr)} {failure}")
    return 1 if listed else 0
