"""``enginebay benchmark``: measure how fast artifacts are here, side by side and beside PyTorch."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.commands import (
    MODEL_HELP,
    add_inputs,
    add_run_flags,
    repeatable_command,
    stdout_on_stderr,
)
from enginebay.errors import UsageError
from enginebay_lab.commands.results import add_report, check_report, exit_code, show

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EXAMPLES = (
    "enginebay benchmark artifact",
    "enginebay benchmark fp32 int8 --against pytorch",
)


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    parser.usage = (
        "enginebay benchmark ARTIFACT [ARTIFACT …] [--against pytorch] [--batch N,N] "
        "[--threads N,N] [flags]"
    )
    parser.add_argument("artifacts", metavar="ARTIFACT", nargs="+", type=Path)
    parser.add_argument(
        "--against",
        choices=("pytorch",),
        help="measure the model in PyTorch too, and compare the artifacts with it (default: "
        "compare them with the first one)",
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="for --against (default: the one that an artifact was deployed from): " + MODEL_HELP,
    )
    parser.add_argument(
        "--batch",
        type=_numbers,
        default=(),
        metavar="N,N",
        help="measure at these sizes of the batch (default: the inputs as they are)",
    )
    parser.add_argument(
        "--threads",
        type=_numbers,
        default=(1,),
        metavar="N,N",
        help="call from so many threads at once (default: 1)",
    )
    parser.add_argument(
        "--layers",
        action="store_true",
        help="time each layer too, with the engine's own profiler where it has one",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=10.0,
        metavar="N",
        help="how long a row may take; it ends once its windows agree (default: 10)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=1800.0,
        metavar="SECONDS",
        help="limit for loading, and for each window (default: 1800)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write windows and rows to this file as they come, as lines of JSON",
    )
    add_inputs(parser, "the first that the first artifact was verified with, else made up")
    add_run_flags(parser)
    add_report(parser)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError:
        raise UsageError(f"'{text}' is no list of numbers", hint="write them as 1,8") from None


def run(args: Namespace) -> int:
    """Measure, and print the figures; a row without any fails the command with exit code 1."""
    import msgspec

    from enginebay import open_artifact
    from enginebay.authors import inputs_for, parse_inputs
    from enginebay.commands import progress
    from enginebay_lab.measurement.benchmark_artifact import benchmark

    check_report(args, *args.artifacts)
    first = open_artifact(args.artifacts[0])
    given = parse_inputs(args.inputs)
    model = args.model
    if args.against and model is None:
        model = _deployed_model(args.artifacts)
    with progress() as watch, stdout_on_stderr():
        measured = benchmark(
            args.artifacts,
            inputs_for(first.inputs, given) if given else None,
            against=args.against,
            model=model,
            seconds=args.seconds,
            batch=args.batch,
            threads=args.threads,
            layers=args.layers,
            device=args.device,
            strict=args.strict,
            timeout=args.timeout,
            output=args.output,
            watch=watch,
        )
    measured = msgspec.structs.replace(measured, command=repeatable_command(args.argv))
    show(args, measured)
    return exit_code(dict.fromkeys(measured.failures))


def _deployed_model(artifacts: list[Path]) -> str:
    """The model that one of the artifacts was made from, if it is there."""
    from enginebay import open_artifact

    for artifact in artifacts:
        opened = open_artifact(artifact)
        with suppress(UsageError):  # it names none, or one that has gone
            return opened.named_model()
    raise UsageError(
        "there is no PyTorch model to compare with: no artifact names one that is still there",
        hint="name it: --model MODEL",
    )
