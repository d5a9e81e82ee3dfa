"""``enginebay verify ARTIFACT``: compare it with its model again, here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginebay.cli.arguments import MODEL_HELP, add_compare, add_inputs, add_tolerance
from enginebay.cli.output import (
    print_fields,
    print_json,
    print_labelled,
    stdout_on_stderr,
)
from enginebay.cli.summaries import basis_fields, print_outputs, quiet_verdict, verdict_text
from enginebay.errors import UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from enginebay.artifact import Artifact


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    parser.usage = "enginebay verify ARTIFACT [--model MODEL] [--input NAME=SPEC] [flags]"
    parser.add_argument("artifact", metavar="ARTIFACT", type=Path)
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help=f"compare with this model instead of the recorded outputs: {MODEL_HELP}",
    )
    add_inputs(parser, "those that the artifact was verified with; others need --model")
    add_compare(parser, "as the artifact was verified")
    add_tolerance(parser)


def run(args: Namespace) -> int:
    """Verify; anything but ``verified`` fails the command with exit code 1."""
    import msgspec

    from enginebay.artifact import open_artifact
    from enginebay.operations import verify

    if args.inputs and not args.model:
        raise UsageError(
            "--input brings inputs, but no outputs to compare with",
            hint="add --model MODEL, or leave --input out",
        )
    artifact = open_artifact(args.artifact)
    with stdout_on_stderr(), quiet_verdict():
        verification = verify(
            artifact,
            _inputs(artifact, args.inputs),
            args.model,
            rtol=args.rtol,
            atol=args.atol,
            compare=args.compare,
            timeout=args.timeout,
        )
    if args.json:
        print_json({"verification": msgspec.to_builtins(verification)})
    else:
        print_labelled("", verdict_text(verification))
        print_fields(basis_fields(verification))
        print_outputs(verification)
    return 0 if verification.passed else 1


def _inputs(artifact: Artifact, texts: list[str]) -> dict[str, Any] | None:
    from enginebay.tensors import inputs_for, parse_inputs

    return inputs_for(artifact.inputs, parse_inputs(texts)) if texts else None
