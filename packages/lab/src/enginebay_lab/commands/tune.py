"""``enginebay tune``: find an artifact's fastest settings, and write them as a new artifact."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.commands import (
    add_work_dir,
    print_blocks,
    print_json,
    repeatable_command,
    stdout_on_stderr,
)
from enginebay.errors import EnginebayError
from enginebay_lab.commands.benchmark import parse_numbers
from enginebay_lab.commands.compare import read_axes

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EXAMPLES = (
    "enginebay tune artifact",
    "enginebay tune artifact --latency-ms 10 --batch 1 2 4 8",
)


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    from enginebay import VerifyOptions

    parser.usage = "enginebay tune ARTIFACT [--latency-ms MS] [--batch N …] [flags]"
    parser.add_argument("artifact", metavar="ARTIFACT", type=Path)
    add_work_dir(parser, "ARTIFACT-tuned")
    parser.add_argument(
        "--latency-ms",
        type=float,
        metavar="MS",
        help="the largest median duration of a call in milliseconds: of the batch sizes within it, "
        "the one with the most items per second is chosen",
    )
    parser.add_argument(
        "--batch",
        dest="batches",
        type=parse_numbers,
        nargs="+",
        default=(),
        metavar="N",
        help="batch sizes to search (default: the batch size of the inputs)",
    )
    parser.add_argument(
        "--axis",
        action="append",
        default=[],
        metavar="PARAMETER='VALUE VALUE …'",
        help="try only these values of this parameter, of those that change only the speed "
        "(default: all such parameters, with the values that their backend declares)",
    )
    parser.add_argument(
        "--duration",
        type=float,
        default=3.0,
        metavar="SECONDS",
        help="longest time of each measurement of a setting (default: 3)",
    )
    group = parser.add_argument_group("verification options")
    VerifyOptions.add_arguments(group, only=["rtol", "atol", "timeout"])


def run(args: Namespace) -> int:
    """Search, and print a row for each setting.

    Returns:
        1 if no call is within the limit of the latency, else 0.
    """
    from enginebay import VerifyOptions, get_backend, open_artifact
    from enginebay.commands import progress
    from enginebay_lab.tuning.tune_artifact import Search

    artifact = open_artifact(args.artifact)
    kinds = [get_backend(artifact.backend).Params]
    axes = read_axes(args.axis, kinds)
    target = args.work_dir or artifact.path.with_name(f"{artifact.path.name}-tuned")
    search = Search(
        artifact,
        axes or None,
        args.latency_ms,
        [size for sizes in args.batches for size in sizes],
        args.duration,
        VerifyOptions.from_args(args),
    )
    command = repeatable_command(args.argv, *(() if args.overwrite else ("--overwrite",)))
    try:
        with progress() as watch, stdout_on_stderr():
            tuning = search.run(target, args.overwrite, watch, command)
    except (KeyboardInterrupt, EnginebayError, OSError):
        so_far = search.result()
        # With --json the document is the error, and what was measured goes to stderr.
        with stdout_on_stderr() if args.json else nullcontext():
            if so_far.rows:
                print_blocks(so_far.blocks())
        raise
    if args.json:
        print_json(tuning.to_dict())
    else:
        print_blocks(tuning.blocks())
    return 0 if tuning.chosen else 1
