"""``--report`` of the commands that measure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.commands import print_message, repeatable_command, short_path

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


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
    from enginebay_lab.reports.gathering import report
    from enginebay_lab.reports.saving import check_output

    check_output(args.report)
    if artifacts:
        report(*artifacts)


def write_report(args: Namespace, *sources: Any) -> None:
    """Write the report, where one is wanted, and say where it is on stderr."""
    if args.report is None:
        return
    from enginebay_lab.reports.gathering import report

    report(*sources, command=repeatable_command(args.argv)).save(args.report)
    print_message(f"report: {short_path(args.report.absolute())}")
