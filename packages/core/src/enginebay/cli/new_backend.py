"""``enginebay new-backend``: a complete backend package to put an engine into."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.cli.output import print_json, say

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's arguments."""
    parser.usage = "enginebay new-backend NAME [--json]"
    parser.add_argument("name", metavar="NAME", help="the backend's name, as users will type it")


def run(args: Namespace) -> int:
    """Write the package into ``enginebay-NAME`` and say how to go on."""
    import sys

    from enginebay.cli.scaffold import new_backend

    files = [path.as_posix() for path in new_backend(args.name)]
    if args.json:
        print_json({"backend": args.name, "files": files})
        return 0
    sys.stdout.write("\n".join(files) + "\n")
    folder = f"enginebay-{args.name}"
    say(f"Next: cd {folder} && pip install -e '.[testing]' && pytest")
    return 0
