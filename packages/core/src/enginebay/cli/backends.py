"""``enginebay backends``: what is installed, from metadata alone."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from enginebay.cli.output import NONE_INSTALLED, print_json, print_table, say, styled
from enginebay.plugins import list_backends

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Nothing to add: ``--json`` is every command's."""
    parser.usage = "enginebay backends [--json]"


def run(args: Namespace) -> int:
    """List the backends; broken ones are listed with their reason, and do not fail the command."""
    found = list_backends()
    if args.json:
        print_json({"backends": [status._asdict() for status in found]})
        return 0
    if not found:
        say(NONE_INSTALLED)
        return 0
    print_table(
        ("NAME", "STATE", "DISTRIBUTION", "REASON"),
        [(s.name, s.state, s.provider, s.reason or "") for s in found],
    )
    for status in found:
        if status.fix:
            say(f"{styled(f'{status.name}:', 'red', sys.stderr)} {status.fix}")
    return 0
