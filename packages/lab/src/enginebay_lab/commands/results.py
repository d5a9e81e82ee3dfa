"""What a command found: printed, written as a report, and its failures named."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


def add_report(parser: ArgumentParser) -> None:
    """Add ``--report``."""
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="write the result as a page too, as .html, or as data for one, as .json",
    )


def check_report(args: Namespace, *artifacts: Any) -> None:
    """Refuse what could not be reported, before anything is measured.

    Args:
        args: The parsed command line.
        artifacts: The artifacts that are to be in one report.

    Raises:
        UsageError: The file is no place for a report, or the artifacts are of different models.
        ArtifactError: An artifact is damaged.
        MissingDependencyError: What a page is made with is not installed.
    """
    if args.report is None:
        return
    from enginebay_lab.reports.output_files import check_output
    from enginebay_lab.reports.record_collector import report

    check_output(args.report)
    if artifacts:
        report(*artifacts)


def show(args: Namespace, found: Result, *artifacts: Any, **more: Any) -> None:
    """Print a result, and write its report where one is wanted.

    Args:
        args: The parsed command line.
        found: The result.
        artifacts: What the report has besides.
        **more: What the JSON document has besides.
    """
    if args.json:
        print_json(found.to_dict() | more)
    else:
        print_blocks(found.blocks())
    if args.report is not None:
        from enginebay_lab.reports.record_collector import report

        command = repeatable_command(args.argv)
        report(*artifacts, found, command=command).save(args.report)
        print_message(f"report: {short_path(args.report.absolute())}")


def exit_code(failures: Iterable[str]) -> int:
    """Name each failure on stderr; returns 1 where there is one, else 0."""
    listed = list(failures)
    for failure in listed:
        print_message(f"{styled('error:', 'red', sys.stderr)} {failure}")
    return 1 if listed else 0
