"""``enginebay evaluate``: measure what artifacts cost in accuracy, beside PyTorch on a data set."""

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
from enginebay_lab.commands.executor_flags import add_executor, executor
from enginebay_lab.commands.results import add_report, check_report, exit_code, show

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

METRIC_HELP = (
    "accuracy, top-5 (or another number), mean-absolute-error, cosine (to PyTorch), file.py:attr "
    "or module:attr with update, compute and reset, torchmetrics:NAME, or SCHEME:NAME of a plugin"
)

EXAMPLES = (
    "enginebay evaluate artifact --data pictures --metric accuracy",
    "enginebay evaluate fp32 int8 --data items.npz --metric cosine --model net.py:build",
)


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    parser.usage = (
        "enginebay evaluate ARTIFACT [ARTIFACT …] --data DATA --metric METRIC [--model MODEL] "
        "[--max-drop X] [flags]"
    )
    parser.add_argument("artifacts", metavar="ARTIFACT", nargs="+", type=Path)
    add_data(parser, "its items have targets, but for metrics that need none")
    parser.add_argument(
        "--metric",
        dest="metrics",
        action="append",
        required=True,
        metavar="METRIC",
        help=f"{METRIC_HELP} (repeatable)",
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help=f"compare with this model in PyTorch, on the same items: {MODEL_HELP}",
    )
    parser.add_argument(
        "--max-drop",
        type=float,
        metavar="X",
        help="fail with exit code 1 where an artifact's value is worse than PyTorch's by more "
        "than this",
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write each row to this file, as a line of JSON"
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with what the file of --output holds: rows in it are not measured again",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=1800.0,
        metavar="SECONDS",
        help="limit for an engine to load, and for each item (default: 1800)",
    )
    add_executor(parser, "the items", "all in one process")
    add_report(parser)


def run(args: Namespace) -> int:
    """Evaluate; a lost artifact, or a drop above ``--max-drop``, fails with exit code 1."""
    import msgspec

    from enginebay.commands import progress
    from enginebay_lab.evaluation.evaluate_artifacts import evaluate

    data = data_set(args)
    if data is None:
        raise UsageError("there is no data to evaluate on", hint="add --data FILE.npz")
    if args.max_drop is not None and not args.model:
        raise UsageError("--max-drop requires a model to compare with", hint="add --model MODEL")
    check_report(args, *args.artifacts)
    with executor(args) as workers, progress() as watch, stdout_on_stderr():
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
    show(args, evaluation, failures=failures)
    return exit_code(failures)
