"""``enginebay config``: show or check a deploy config."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from enginebay.cli.arguments import add_allow_env, environment
from enginebay.cli.output import print_json, print_message
from enginebay.errors import UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EXAMPLES = (
    "enginebay config check deploy.toml",
    "enginebay config show deploy.py --json",
)


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    parser.usage = "enginebay config show|check FILE [--allow-env] [flags], or config schema"
    parser.add_argument(
        "action",
        choices=tuple(_ACTIONS),
        metavar="|".join(_ACTIONS),
        help="show prints the config with everything it inherits, in the .py form; "
        "check says what is wrong with it, and where; "
        "schema prints the JSON Schema of configs for the installed backends, for editors",
    )
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="a .py, .toml, .json or .yaml deploy config"
    )
    add_allow_env(parser)


def run(args: Namespace) -> int:
    """Run the requested action."""
    if bool(args.file) == (args.action == "schema"):
        wanted = "takes no FILE" if args.file else "needs a FILE"
        raise UsageError(f"'config {args.action}' {wanted}", hint="enginebay config -h")
    return _ACTIONS[args.action](args)


def _show(args: Namespace) -> int:
    from enginebay.config import as_python, read_config

    config = read_config(args.file, environment=environment(args.allow_env))
    if args.json:
        print_json({"config": config})
    else:
        sys.stdout.write(as_python(config))
    return 0


def _check(args: Namespace) -> int:
    """Print everything that is wrong; anything at all fails the command with exit code 1."""
    from enginebay.config import read_table
    from enginebay.operations import check

    found = check(read_table(args.file, environment=environment(args.allow_env)))
    if args.json:
        problems = [{"message": str(p), "hint": p.hint} for p in found.problems]
        print_json({"problems": problems, "notes": list(found.notes), "backend": found.backend})
        return bool(found.problems)
    for problem in found.problems:
        hint = f" ({problem.hint})" if problem.hint else ""
        sys.stdout.write(f"{problem}{hint}\n")
    for note in found.notes:
        print_message(f"note: {note}")
    if not found.problems:
        backend = found.backend or "any backend"
        sys.stdout.write(
            f"ok: {args.file} is for {backend}{f' by {found.ir}' if found.ir else ''}\n"
        )
    return bool(found.problems)


def _schema(args: Namespace) -> int:  # noqa: ARG001  # every action's signature
    """Print the schema; a broken backend is left out, with its reason on stderr."""
    import json

    from enginebay.backend import get_backend
    from enginebay.config import config_schema
    from enginebay.errors import BackendUnavailableError
    from enginebay.plugins import list_backends

    backends = {}
    for status in list_backends():
        try:
            backends[status.name] = get_backend(status.name).Params
        except BackendUnavailableError as err:
            print_message(f"note: {status.name} is left out: {err}")
    sys.stdout.write(json.dumps(config_schema(backends), indent=2) + "\n")
    return 0


_ACTIONS = {"show": _show, "check": _check, "schema": _schema}
