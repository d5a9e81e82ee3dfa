"""``enginebay sensitivity``: measure what each layer of an int8 engine costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.commands import (
    add_backend_parameters,
    add_model,
    model_options,
    print_fields,
    print_json,
    print_table,
    read_model,
    stdout_on_stderr,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from enginebay_lab.diagnosis.rank_layers import Sensitivity

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
    """Rank the layers, the costliest first."""
    from enginebay import VerifyOptions
    from enginebay.commands import progress
    from enginebay_lab.diagnosis.rank_layers import sensitivity

    with progress() as watch, stdout_on_stderr():
        timeout = VerifyOptions.from_args(args).timeout
        found = sensitivity(read_model(args), **model_options(args), timeout=timeout, watch=watch)
    if args.json:
        import msgspec

        print_json(msgspec.to_builtins(found))
    else:
        _print(found)
    return 0


def _print(found: Sensitivity) -> None:
    print_table(
        ("NODE", "OPERATOR", "DB"),
        [
            (one.node, one.operator, "-" if one.decibels is None else f"{one.decibels:.1f}")
            for one in found.nodes
        ],
        right=("DB",),
    )
    note = (
        f"the signal above the noise with one node alone in {found.precision}, on {found.items} "
        "items; --int8-keep NODE keeps one in floating point, enginebay quantize chooses by itself"
    )
    print_fields([("note", note)])
