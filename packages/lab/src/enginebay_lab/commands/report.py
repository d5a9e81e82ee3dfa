"""``enginebay report``: write a page about the artifacts of one model, or about sweeps."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.commands import (
    human_size,
    print_fields,
    print_json,
    print_message,
    repeatable_command,
    short_path,
    stdout_on_stderr,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from enginebay_lab import Report

EXAMPLES = (
    "enginebay report comparison --output report.html",
    "enginebay report fp32 int8 speed.json accuracy.json",
    "enginebay report openvino.json ncnn.json --github",
)

_OUTPUT = Path("report.html")


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    parser.usage = "enginebay report PATH [PATH …] [--output FILE.html|FILE.json] [flags]"
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        type=Path,
        help="the folder of a comparison, a sweep or an artifact, or a file that a command wrote "
        "with --json, --output or --report; all sources except sweeps must be of the same model",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="the file to write: .html for a page, .json for the page's data; an older report is "
        f"replaced (default: {_OUTPUT}; none with --json or --github)",
    )
    parser.add_argument(
        "--github",
        action="store_true",
        help="for a job of GitHub Actions: add the verdicts and tables to the job's summary, and "
        "print an annotation, with file and line, for each artifact that is not verified",
    )


def run(args: Namespace) -> int:
    """Collect the results, and write the report; return 0."""
    from enginebay_lab.reports.output_files import check_output
    from enginebay_lab.reports.record_collector import report

    output = args.output or (None if args.json or args.github else _OUTPUT)
    if output is not None:
        check_output(output)
    with stdout_on_stderr():
        collected = report(*args.paths, command=repeatable_command(args.argv))
    if output is not None:
        collected.save(output)
    if args.github:
        _tell_github(collected)
    if args.json:
        print_json(collected.to_json())
    elif output is not None:
        size = human_size(output.stat().st_size)
        print_fields([("report", f"{short_path(output.absolute())}, {size}")])
    return 0


def _tell_github(collected: Report) -> None:
    """Append to the file of the job's summary, and print annotations on stderr.

    GitHub reads both streams. Outside of a job, the summary is printed.
    """
    from enginebay_lab.reports.github import format_annotations, format_summary

    summary = format_summary(collected)
    if path := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(summary)
    else:
        print_message(summary)
    for line in format_annotations(collected):
        print_message(line)
