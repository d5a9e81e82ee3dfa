"""``enginebay config show|check|schema``: what a deploy config says, and what is wrong with it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from enginebay.cli.output import print_json
from enginebay.errors import UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    parser.usage = "enginebay config show|check FILE [--allow-env] [flags]"
    parser.add_argument(
        "action",
        choices=("show", "check"),
        metavar="show|check",
        help="show prints the config with everything it inherits, in the .py form; "
        "check says what is wrong with it, and where",
    )
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="a .py, .toml, .json or .yaml deploy config"
    )
    parser.add_argument(
        "--allow-env",
        action="store_true",
        help="let the config read environment variables, with {{$NAME:default}}",
    )


def run(args: Namespace) -> int:
    """Do what is asked for."""
    if not args.file:
        raise UsageError(f"'config {args.action}' needs a FILE", hint="enginebay config -h")
    return _show(args)


def _show(args: Namespace) -> int:
    from enginebay.config import load
    from enginebay.config.writing import as_python

    config = load(args.file, environment=environment(args))
    if args.json:
        print_json({"config": config})
    else:
        sys.stdout.write(as_python(config))
    return 0


def environment(args: Namespace) -> Mapping[str, str] | None:
    """What the config may see of the environment."""
    import os

    return os.environ if args.allow_env else None
