"""``enginebay report``: write a page about the artifacts of one model, or about sweeps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.commands import (
    human_size,
    print_fields,
    print_json,
    repeatable_command,
    short_path,
    stdout_on_stderr,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EXAMPLES = (
    "enginebay report comparison --output report.html",
    "enginebay report fp32 int8 speed.json accuracy.json",
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
        f"replaced (default: {_OUTPUT}; none with --json)",
    )


def run(args: Namespace) -> int:
    """Collect the results, and write the report; return 0."""
    from enginebay_lab.reports.output_files import check_output
    from enginebay_lab.reports.record_collector import report

    output = args.output or (None if args.json else _OUTPUT)
    if output is not None:
        check_output(output)
    with stdout_on_stderr():
        collected = report(*args.paths, command=repeatable_command(args.argv))
    if output is not None:
        collected.save(output)
    if args.json:
        print_json(collected.to_json())
    else:
        assert output is not None
        size = human_size(output.stat().st_size)
        print_fields([("report", f"{short_path(output.absolute())}, {size}")])
    return 0
