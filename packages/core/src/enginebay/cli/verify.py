"""``enginebay verify``: compare an artifact with its model again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.cli.arguments import MODEL_HELP, add_inputs, artifact_inputs
from enginebay.cli.output import print_blocks, print_json, print_labelled, stdout_on_stderr
from enginebay.cli.summaries import quiet_verdict
from enginebay.errors import UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EXAMPLES = (
    "enginebay verify artifact",
    "enginebay verify artifact --model net.py:build --rtol 1e-3",
)


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    from enginebay.config import ONLY_OF_DEPLOY, VerifyOptions

    parser.usage = "enginebay verify ARTIFACT [--model MODEL] [--input NAME=SPEC] [flags]"
    parser.add_argument(
        "artifact",
        metavar="ARTIFACT",
        type=Path,
        help="the folder of an artifact; if it was built for a certain kind of machine "
        "('built for' in 'enginebay inspect'), the result is recorded in the manifest, unless "
        "one of --model, --input, --compare, --rtol and --atol is used",
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help=f"compare with this model instead of the recorded outputs: {MODEL_HELP}",
    )
    add_inputs(
        parser,
        "the inputs with which the artifact was verified; other inputs require --model. A .npz "
        "file may contain several samples, along an additional first axis, as for 'enginebay "
        "deploy --data'",
    )
    group = parser.add_argument_group("verification options")
    VerifyOptions.add_arguments(group, skip=ONLY_OF_DEPLOY)


def run(args: Namespace) -> int:
    """Verify the artifact; return exit code 1 unless the verdict is ``verified``."""
    import msgspec

    from enginebay.artifact import open_artifact
    from enginebay.config import VerifyOptions
    from enginebay.operations import verify_here

    if args.inputs and not args.model:
        raise UsageError(
            "--input requires --model, to compute the expected outputs",
            hint="add --model MODEL, or remove --input",
        )
    artifact = open_artifact(args.artifact)
    with stdout_on_stderr(), quiet_verdict():
        outcome = verify_here(
            artifact,
            artifact_inputs(artifact, args.inputs),
            args.model,
            options=VerifyOptions.from_args(args),
        )
    verification = outcome.verification
    outcome.warn()
    if args.json:
        # Null if the result was not recorded in the artifact.
        extra = {"artifact": str(artifact.path), "recorded": msgspec.to_builtins(outcome.run)}
        print_json(verification.to_dict() | extra)
    else:
        print_blocks(verification.blocks())
        if outcome.run is not None:
            print_labelled("recorded: ", outcome.run.describe())
    return 0 if verification.passed else 1
