"""``enginebay bisect``: find the first wrong layer of an engine, or check each module."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.commands import (
    MODEL_HELP,
    add_inputs,
    artifact_inputs,
    stdout_on_stderr,
)
from enginebay.errors import UsageError
from enginebay_lab.commands.result_output import add_report_flag, check_report_flag, print_result

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EXAMPLES = (
    "enginebay bisect artifact",
    "enginebay bisect artifact --against other",
    "enginebay bisect artifact --pieces",
)


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    import enginebay as eb

    parser.usage = (
        "enginebay bisect ARTIFACT [--model MODEL] [--input NAME=SPEC] "
        "[--against ARTIFACT | --pieces] [flags]"
    )
    parser.add_argument("artifact", metavar="ARTIFACT", type=Path)
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help=f"the PyTorch model (default: the one that the artifact was made from): {MODEL_HELP}",
    )
    add_inputs(parser, "the inputs that the artifact was verified with")
    parser.add_argument(
        "--against",
        metavar="ARTIFACT",
        type=Path,
        help="compare with this artifact's engine instead of PyTorch",
    )
    parser.add_argument(
        "--pieces",
        action="store_true",
        help="compare each module separately, even if the whole artifact agrees",
    )
    # The model is exported again, and an artifact does not contain the user's rewriters.
    eb.ExportOptions.add_arguments(parser, only=("rewriters",))
    eb.VerifyOptions.add_arguments(parser, only=("rtol", "atol", "timeout"))
    add_report_flag(parser)


def run(args: Namespace) -> int:
    """Search for the first wrong layer, or check each module, and print the result.

    Returns:
        1 if a difference was found, if only in the file that the engine was built from; else 0.
    """
    import enginebay as eb
    from enginebay.commands import progress
    from enginebay_lab.diagnosis.bisect_artifact import bisect
    from enginebay_lab.diagnosis.check_pieces import pieces

    if args.pieces:
        for flag in ("against", "report"):
            if getattr(args, flag) is not None:
                raise UsageError(f"--pieces and --{flag} cannot be combined")
    artifact = eb.open_artifact(args.artifact)
    check_report_flag(args)
    with progress() as watch, stdout_on_stderr():
        subject = (artifact, args.model, artifact_inputs(artifact, args.inputs))
        options = {
            **eb.ExportOptions.given_arguments(args),
            **eb.VerifyOptions.given_arguments(args),
            "watch": watch,
        }
        if args.pieces:
            checked = pieces(*subject, **options)
        else:
            bisection = bisect(*subject, against=args.against, **options)
    if args.pieces:
        print_result(args, checked)
        return int(not checked.passed)
    print_result(args, bisection, artifact)
    return int(bisection.found or bisection.step == "export")
