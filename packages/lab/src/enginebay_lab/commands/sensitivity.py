"""``enginebay sensitivity``: measure the error that each layer of an int8 engine causes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.commands import (
    add_backend_parameters,
    add_model,
    model_options,
    print_blocks,
    print_json,
    read_model,
    stdout_on_stderr,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


EXAMPLES = ("enginebay sensitivity net.py:build --backend {backend} --data items.npz",)


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:
    """Add the command's flags, and those of the chosen backend."""
    from enginebay import ExportOptions, VerifyOptions

    parser.usage = (
        "enginebay sensitivity MODEL --precision int8 --data DATA [--backend NAME] [flags]"
    )
    add_model(parser)
    VerifyOptions.add_arguments(parser, only=("timeout",))
    group = parser.add_argument_group("export options")
    ExportOptions.add_arguments(group, skip=("cuts", "keep_ir"))
    add_backend_parameters(parser, argv)


def run(args: Namespace) -> int:
    """Rank the layers by the error that each causes, and print the ranking; return 0."""
    from enginebay import VerifyOptions
    from enginebay.commands import progress
    from enginebay_lab.diagnosis.rank_layers import sensitivity

    with progress() as watch, stdout_on_stderr():
        timeout = VerifyOptions.from_args(args).timeout
        ranking = sensitivity(read_model(args), **model_options(args), timeout=timeout, watch=watch)
    if args.json:
        print_json(ranking.to_dict())
    else:
        print_blocks(ranking.blocks())
    return 0
