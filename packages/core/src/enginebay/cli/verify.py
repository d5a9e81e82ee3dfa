"""``enginebay verify``: compare an artifact with its model again."""

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
from enginebay.cli.report_flag import add_report, check_report, write_report
from enginebay.cli.summaries import basis_fields, print_outputs, quiet_verdict, verdict_text
from enginebay.cli.verify_bisect import run as run_bisect
from enginebay.errors import UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from enginebay.artifact import Artifact

EXAMPLES = (
    "enginebay verify artifact",
    "enginebay verify artifact --model net.py:build --rtol 1e-3",
    "enginebay verify artifact --bisect",
)


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    parser.usage = (
        "enginebay verify ARTIFACT [--model MODEL] [--input NAME=SPEC] [--bisect] [flags]"
    )
    parser.add_argument(
        "artifact",
        metavar="ARTIFACT",
        type=Path,
        help="the folder of an artifact; one that is built for several machines keeps what is "
        "found, where nothing but its folder, --timeout and forms of output are given",
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help=f"compare with this model instead of the recorded outputs: {MODEL_HELP}",
    )
    add_inputs(
        parser,
        "those that the artifact was verified with; others need --model. Arrays of a .npz file "
        "with one axis more than the inputs hold several of each, as --data of deploy reads them",
    )
    add_compare(parser, "as the artifact was verified")
    add_tolerance(parser)
    parser.add_argument(
        "--bisect",
        action="store_true",
        help="find the first module and ONNX node where the engine leaves the model, which is the "
        "one that the artifact names, or --model",
    )
    parser.add_argument(
        "--against",
        metavar="ARTIFACT",
        type=Path,
        help="with --bisect: compare with this artifact's engine instead of PyTorch",
    )
    add_report(parser)


def run(args: Namespace) -> int:
    """Verify; anything but ``verified`` fails the command with exit code 1."""
    import msgspec

    from enginebay.artifact import open_artifact
    from enginebay.operations import verify_here

    if args.against and not args.bisect:
        raise UsageError("--against chooses what --bisect compares with", hint="add --bisect")
    if args.inputs and not (args.model or args.bisect):
        raise UsageError(
            "--input brings inputs, but no outputs to compare with",
            hint="add --model MODEL, or leave --input out",
        )
    if args.bisect and args.compare:
        raise UsageError(
            "--bisect compares the outputs as the artifact was verified, and layers place by place",
            hint="leave --compare out",
        )
    artifact = open_artifact(args.artifact)
    check_report(args)
    if args.bisect:
        return run_bisect(args, artifact, _inputs(artifact, args.inputs))
    with stdout_on_stderr(), quiet_verdict():
        outcome = verify_here(
            artifact,
            _inputs(artifact, args.inputs),
            args.model,
            rtol=args.rtol,
            atol=args.atol,
            compare=args.compare,
            timeout=args.timeout,
        )
    verification = outcome.verification
    outcome.warn()
    if args.json:
        document = {
            "artifact": str(artifact.path),
            "verification": verification,
            "recorded": outcome.run,
        }
        print_json(msgspec.to_builtins(document))
    else:
        print_labelled("", verdict_text(verification))
        print_fields(basis_fields(verification))
        print_outputs(verification)
        if outcome.run is not None:
            print_labelled("recorded: ", outcome.run.describe())
    write_report(args, artifact, verification)
    return 0 if verification.passed else 1


def _inputs(artifact: Artifact, texts: list[str]) -> Any:
    """The inputs by name; the file of a data set, whose arrays hold several of each; or None."""
    from enginebay.tensors import inputs_for, parse_inputs

    if not texts:
        return None
    given = parse_inputs(texts)
    if len(texts) == 1 and texts[0].endswith(".npz") and _are_stacked(artifact, given):
        return texts[0]
    return inputs_for(artifact.inputs, given)


def _are_stacked(artifact: Artifact, arrays: dict[str, Any]) -> bool:
    """True if each input's array has one axis more than the input: it counts the items."""
    ranks = {spec.name: len(spec.dims) for spec in artifact.inputs if spec.dims is not None}
    return bool(ranks) and all(
        name in arrays and arrays[name].ndim == rank + 1 for name, rank in ranks.items()
    )
