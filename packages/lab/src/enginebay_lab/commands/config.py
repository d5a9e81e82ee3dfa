"""``enginebay config``: show or check a deploy config."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from enginebay.commands import add_allow_env, print_json, print_message
from enginebay.errors import UsageError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping

EXAMPLES = ("enginebay config check deploy.toml", "enginebay config show deploy.py --json")


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flags."""
    parser.usage = "enginebay config show|check FILE [--allow-env] [flags], or config schema"
    parser.add_argument(
        "action",
        choices=tuple(_ACTIONS),
        metavar="|".join(_ACTIONS),
        help="'show' prints the config, merged with its bases, in the .py form; "
        "'check' prints all errors in the config with their locations; "
        "'schema' prints the JSON Schema of configs for the installed backends, for editors",
    )
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="a .py, .toml, .json or .yaml deploy config"
    )
    add_allow_env(parser)


def run(args: Namespace) -> int:
    """Run the action ``show``, ``check`` or ``schema``; return 1 if a check finds errors."""
    if bool(args.file) == (args.action == "schema"):
        problem = "takes no FILE" if args.file else "requires a FILE"
        raise UsageError(f"'config {args.action}' {problem}", hint="enginebay config -h")
    return _ACTIONS[args.action](args)


def _show_config(args: Namespace) -> int:
    from enginebay.authors.files import read_config
    from enginebay_lab.configs.writing import as_python

    config = read_config(args.file, environment=_environment(args))
    if args.json:
        print_json({"config": config})
    else:
        sys.stdout.write(as_python(config))
    return 0


def _check_config(args: Namespace) -> int:
    from enginebay.authors.files import read_table
    from enginebay_lab.configs.check_config import check_config

    result = check_config(read_table(args.file, environment=_environment(args)))
    if args.json:
        problems = [{"message": str(p), "hint": p.hint} for p in result.problems]
        print_json({"problems": problems, "notes": list(result.notes), "backend": result.backend})
        return bool(result.problems)
    for problem in result.problems:
        hint = f" ({problem.hint})" if problem.hint else ""
        sys.stdout.write(f"{problem}{hint}\n")
    for note in result.notes:
        print_message(f"note: {note}")
    if not result.problems:
        backend = result.backend or "any backend"
        ir = f", exported to {result.ir}" if result.ir else ""
        sys.stdout.write(f"ok: {args.file} is valid for {backend}{ir}\n")
    return bool(result.problems)


def _print_schema(args: Namespace) -> int:  # noqa: ARG001  # every action's signature
    import json

    import enginebay as eb
    from enginebay.errors import BackendUnavailableError
    from enginebay_lab.configs.schema import config_schema

    backends = {}
    for status in eb.list_backends():
        try:
            backends[status.name] = eb.get_backend(status.name).Params
        except BackendUnavailableError as err:
            print_message(f"note: {status.name} is omitted: {err}")
    # Not by print_json, which adds a key: editors read the document as it is.
    sys.stdout.write(json.dumps(config_schema(backends), indent=2) + "\n")
    return 0


def _environment(args: Namespace) -> Mapping[str, str] | None:
    """Return the environment variables that the config may read; None without ``--allow-env``."""
    return os.environ if args.allow_env else None


_ACTIONS = {"show": _show_config, "check": _check_config, "schema": _print_schema}
