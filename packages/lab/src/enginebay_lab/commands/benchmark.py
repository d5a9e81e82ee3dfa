"""``enginebay benchmark``: measure how fast artifacts are, also in comparison with PyTorch."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.commands import (
    MODEL_HELP,
    add_inputs,
    add_run_flags,
    repeatable_command,
    run_params,
    stdout_on_stderr,
)
from enginebay.errors import UsageError
from enginebay_lab.commands.result_output import (
    add_report_flag,
    check_report_flag,
    print_result,
    report_failures,
)

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
        help="also measure the model in PyTorch, and compare the artifacts with it (default: "
        "compare them with the first artifact)",
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="model for --against (default: the model of the first artifact whose model still "
        f"exists): {MODEL_HELP}",
    )
    parser.add_argument(
        "--batch",
        dest="batches",
        type=parse_numbers,
        default=(),
        metavar="N,N",
        help="batch sizes to measure (default: the batch size of the inputs)",
    )
    parser.add_argument(
        "--threads",
        type=parse_numbers,
        default=(1,),
        metavar="N,N",
        help="thread counts to measure: the threads call the engine at the same time (default: 1)",
    )
    parser.add_argument(
        "--layers",
        action="store_true",
        help="also time each layer, with the engine's own profiler if it has one",
    )
    parser.add_argument(
        "--duration",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="longest time of each measurement (one artifact, batch size and number of threads); "
        "a measurement ends earlier once the median times are stable (default: 10)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=1800.0,
        metavar="SECONDS",
        help="time limit in seconds for loading an engine, and for each group of timed calls "
        "(default: 1800)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write the results to this file, as lines of JSON: each group of timed calls and each "
        "result row as soon as it is measured",
    )
    add_inputs(parser, "the first inputs that the first artifact was verified with, else generated")
    add_run_flags(parser)
    add_report_flag(parser)


def parse_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a text such as ``1,8``."""
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError:
        raise UsageError(
            f"'{text}' is not a list of numbers", hint="separate the numbers by commas: 1,8"
        ) from None


def run(args: Namespace) -> int:
    """Measure the artifacts, and print a result row for each.

    Returns:
        1 if a measurement failed, else 0.
    """
    import msgspec

    from enginebay import open_artifact
    from enginebay.authors.arrays import inputs_for, parse_inputs
    from enginebay.commands import progress
    from enginebay_lab.measurement.benchmark_artifact import benchmark

    check_report_flag(args, *args.artifacts)
    first = open_artifact(args.artifacts[0])
    params = run_params(args, *(open_artifact(path).backend for path in args.artifacts))
    inputs = parse_inputs(args.inputs)
    model = args.model
    if args.against and model is None:
        model = _find_model(args.artifacts)
    # The code of the model may print, but stdout is only for the result, which may be JSON.
    with progress() as watch, stdout_on_stderr():
        measured = benchmark(
            args.artifacts,
            inputs_for(first.inputs, inputs) if inputs else None,
            against=args.against,
            model=model,
            duration=args.duration,
            batches=args.batches,
            threads=args.threads,
            layers=args.layers,
            device=args.device,
            params=params,
            strict=args.strict,
            timeout=args.timeout,
            output=args.output,
            watch=watch,
        )
    measured = msgspec.structs.replace(measured, command=repeatable_command(args.argv))
    print_result(args, measured)
    return report_failures(dict.fromkeys(measured.failures))  # rows may share a failure


def _find_model(artifacts: list[Path]) -> str:
    """Return the name of the model that an artifact was built from, if the model still exists.

    The first artifact with such a model determines the result.
    """
    from enginebay import open_artifact

    for artifact in artifacts:
        opened = open_artifact(artifact)
        with suppress(UsageError):  # it has no model's name, or the model was moved
            return opened.named_model()
    raise UsageError(
        "no PyTorch model to compare with: no artifact records a model that still exists",
        hint="name the model: --model MODEL",
    )
