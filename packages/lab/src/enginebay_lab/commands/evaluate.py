"""``enginebay evaluate``: measure the accuracy of artifacts and of PyTorch on a data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.commands import (
    MODEL_HELP,
    add_data,
    data_set,
    repeatable_command,
    stdout_on_stderr,
)
from enginebay.errors import UsageError
from enginebay_lab.commands.executor_flags import add_executor_flags, open_executor
from enginebay_lab.commands.result_output import (
    add_report_flag,
    check_report_flag,
    print_result,
    report_failures,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_METRIC_HELP = (
    "accuracy, top-5 (or another number), mean-absolute-error, cosine (to PyTorch), file.py:attr "
    "or module:attr with update, compute and reset, torchmetrics:NAME, or SCHEME:NAME of a plugin"
)

EXAMPLES = (
    "enginebay evaluate artifact --data images --metric accuracy",
    "enginebay evaluate fp32 int8 --data items.npz --metric cosine --model net.py:build",
)


def add_metrics(parser: ArgumentParser) -> None:
    """Add ``--metric``."""
    parser.add_argument(
        "--metric",
        dest="metrics",
        action="append",
        required=True,
        metavar="METRIC",
        help=f"{_METRIC_HELP} (repeatable)",
    )


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    parser.usage = (
        "enginebay evaluate ARTIFACT [ARTIFACT …] --data DATA --metric METRIC [--model MODEL] "
        "[--max-drop X] [flags]"
    )
    parser.add_argument("artifacts", metavar="ARTIFACT", nargs="+", type=Path)
    add_data(parser, "its items have targets, except for metrics without targets")
    add_metrics(parser)
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="also evaluate this PyTorch model on the same items, and compare the artifacts with "
        f"this model: {MODEL_HELP}",
    )
    parser.add_argument(
        "--max-drop",
        type=float,
        metavar="X",
        help="fail with exit code 1 if an artifact's metric is worse than PyTorch's by more than X",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write each result row to this file, as a line of JSON",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue the evaluation that wrote the file of --output; result rows in this file "
        "are not computed again",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=1800.0,
        metavar="SECONDS",
        help="time limit in seconds for loading an engine, and for each chunk of items (default: "
        "1800)",
    )
    add_executor_flags(parser, "the evaluation", "1")
    add_report_flag(parser)


def run(args: Namespace) -> int:
    """Evaluate the artifacts, and print a row for each artifact and metric.

    Returns:
        1 if an engine failed or a metric dropped by more than ``--max-drop``, else 0.
    """
    import msgspec

    from enginebay.commands import progress
    from enginebay_lab.evaluation.evaluate_artifacts import evaluate

    data = data_set(args)
    if data is None:
        raise UsageError("no data to evaluate on", hint="add --data FILE.npz")
    if args.max_drop is not None and not args.model:
        raise UsageError("--max-drop requires a model to compare with", hint="add --model MODEL")
    check_report_flag(args, *args.artifacts)
    with open_executor(args) as workers, progress() as watch, stdout_on_stderr():
        evaluation = evaluate(
            args.artifacts,
            data,
            args.metrics,
            model=args.model,
            timeout=args.timeout,
            output=args.output,
            resume=args.resume,
            executor=workers,
            watch=watch,
        )
    evaluation = msgspec.structs.replace(evaluation, command=repeatable_command(args.argv))
    failures = evaluation.failures(args.max_drop)
    print_result(args, evaluation, failures=failures)
    return report_failures(failures)
