"""``enginebay bisect``: find the first layer where an engine leaves the model, or check each."""

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
from enginebay_lab.commands.results import add_report, check_report, show

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
        "--model", metavar="MODEL", help=f"the model, where it has moved: {MODEL_HELP}"
    )
    add_inputs(parser, "those that the artifact was verified with")
    parser.add_argument(
        "--against",
        metavar="ARTIFACT",
        type=Path,
        help="compare with this artifact's engine instead of PyTorch",
    )
    parser.add_argument(
        "--pieces",
        action="store_true",
        help="compare every module alone, right or wrong as the whole is",
    )
    eb.ExportOptions.add_arguments(parser, only=("rewriters",))
    eb.VerifyOptions.add_arguments(parser, only=("rtol", "atol", "timeout"))
    add_report(parser)


def run(args: Namespace) -> int:
    """Bisect; a place that is found fails the command with exit code 1, as a mismatch does."""
    import enginebay as eb
    from enginebay.commands import progress
    from enginebay_lab.diagnosis.bisect_artifact import bisect
    from enginebay_lab.diagnosis.check_pieces import pieces

    if args.pieces:
        for flag in ("against", "report"):
            if getattr(args, flag) is not None:
                raise UsageError(f"--pieces and --{flag} cannot be combined")
    artifact = eb.open_artifact(args.artifact)
    check_report(args)
    with progress() as watch, stdout_on_stderr():
        what = (artifact, args.model, artifact_inputs(artifact, args.inputs))
        given = {
            **eb.ExportOptions.given_arguments(args),
            **eb.VerifyOptions.given_arguments(args),
            "watch": watch,
        }
        if args.pieces:
            checked = pieces(*what, **given)
        else:
            found = bisect(*what, against=args.against, **given)
    if args.pieces:
        show(args, checked)
        return int(not checked.passed)
    show(args, found, artifact)
    return int(found.found)
