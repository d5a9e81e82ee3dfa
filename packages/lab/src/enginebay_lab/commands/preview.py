"""``enginebay preview``: list a model's operators that the engines do not support."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from enginebay.commands import (
    MODEL_HELP,
    add_inputs,
    print_blocks,
    print_json,
    print_message,
    stdout_on_stderr,
)

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


EXAMPLES = ("enginebay preview net.py:build", "enginebay preview net.py:build --backend {backend}")


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    from enginebay import ExportOptions

    parser.usage = "enginebay preview MODEL [--backend NAME,NAME] [--input NAME=SPEC] [flags]"
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    parser.add_argument(
        "--backend",
        type=_parse_names,
        default=(),
        metavar="NAME,NAME",
        help="the backends to check (default: all backends with an installed engine)",
    )
    add_inputs(parser, "the model's example inputs")
    ExportOptions.add_arguments(parser, only=("rewriters",))
    parser.add_argument(
        "--timeout",
        type=float,
        default=600.0,
        metavar="SECONDS",
        help="time limit for the child process of each engine, in seconds (default: 600)",
    )


def _parse_names(text: str) -> tuple[str, ...]:
    names = tuple(filter(None, map(str.strip, text.split(","))))
    if not names:
        raise ArgumentTypeError(f"expected the names of one or more backends, found '{text}'")
    return names


def run(args: Namespace) -> int:
    """Print the operators that engines do not support; return exit code 1 if there are any."""
    from enginebay.authors.arrays import parse_inputs
    from enginebay_lab.obstacles.preview_model import preview

    is_terminal = sys.stderr.isatty()
    if is_terminal:
        print_message(f"exporting {args.model} …")
    with stdout_on_stderr():
        result = preview(
            args.model,
            parse_inputs(args.inputs) if args.inputs else None,
            backends=args.backend,
            rewriters=args.rewriters or (),
            timeout=args.timeout,
            watch=(lambda name: print_message(f"checking {name} …")) if is_terminal else None,
        )
    if args.json:
        print_json(result.to_dict())
    else:
        print_blocks(result.blocks())
    return 0 if result.clear else 1
