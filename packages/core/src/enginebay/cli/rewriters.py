"""``enginebay rewriters``: list the rewriters that an export for a backend applies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.cli.output import print_json, print_message, print_table

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EXAMPLES = ("enginebay rewriters", "enginebay rewriters --backend {backend} --ir onnx")


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    from enginebay.config import ExportOptions
    from enginebay.plugins import preferred_backend

    parser.usage = "enginebay rewriters [--backend NAME] [--ir IR] [--rewriters FILE:ATTR] [--json]"
    parser.add_argument(
        "--backend",
        metavar="NAME",
        help=f"the backend (default: the only installed backend, else {preferred_backend()})",
    )
    ExportOptions.add_arguments(parser, only=("ir", "rewriters"))


def run(args: Namespace) -> int:
    """Print each rewriter and, if it is overridden, the rewriter that is used instead; return 0."""
    from enginebay.backend import default_backend
    from enginebay.operations import find_rewriters, find_sets, get_backend

    backend = get_backend(args.backend or default_backend())
    # A deployment tries this IR first.
    ir = args.ir or backend.info.irs[0]
    listed = find_rewriters(backend.name, ir, find_sets(args.rewriters or ()))
    rows = [
        {
            "kind": rewriter.kind,
            "name": rewriter.name,
            "condition": rewriter.condition,
            "distribution": rewriter.distribution,
            "lost_to": winner and winner.origin,
        }
        for rewriter, winner in listed.items()
    ]
    if args.json:
        print_json({"backend": backend.name, "ir": ir, "rewriters": rows})
        return 0
    if not rows:
        print_message(f"No rewriters for {backend.name} from {ir}.")
        return 0
    print_table(
        ("KIND", "NAME", "CONDITION", "DISTRIBUTION", "OVERRIDDEN BY"),
        [tuple(value or "" for value in row.values()) for row in rows],
    )
    return 0
