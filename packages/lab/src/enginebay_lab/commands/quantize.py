"""``enginebay quantize``: deploy in 8 bits, with as few float layers as the accuracy allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.commands import (
    add_backend_parameters,
    add_model,
    add_options,
    add_work_dir,
    default_work_dir,
    model_options,
    print_blocks,
    print_json,
    quiet_verdict,
    read_model,
    repeatable_command,
    stdout_on_stderr,
    typed,
)
from enginebay_lab.commands.evaluate import add_metrics

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EXAMPLES = ("enginebay quantize net.py:build --data items.npz --metric accuracy --max-drop 0.01",)


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:
    """Add the command's flags, and those of the chosen backend."""
    parser.usage = (
        "enginebay quantize MODEL --precision int8 --data DATA --metric METRIC --max-drop X [flags]"
    )
    add_model(parser)
    add_work_dir(parser)
    parser.add_argument(
        "--max-drop",
        type=float,
        metavar="X",
        required=True,
        help="each metric may be worse than PyTorch's by at most X, on all items of --data",
    )
    add_metrics(parser)
    add_options(parser)
    add_backend_parameters(parser, argv)


def run(args: Namespace) -> int:
    """Quantize the model, and print how much accuracy the artifact loses; return 0."""
    from enginebay import VerifyOptions
    from enginebay.commands import progress
    from enginebay_lab.diagnosis.quantization import quantize

    command = repeatable_command(args.argv)
    with progress() as watch, stdout_on_stderr(), quiet_verdict(), typed(command):
        options = model_options(args)
        quantization = quantize(
            read_model(args),
            **options,
            verify=VerifyOptions.from_args(args),
            metrics=args.metrics,
            max_drop=args.max_drop,
            work_dir=args.work_dir or default_work_dir(args.model, options["backend"]),
            overwrite=args.overwrite,
            watch=watch,
        )
    if args.json:
        print_json(quantization.to_dict())
    else:
        print_blocks(quantization.blocks())
    return 0
