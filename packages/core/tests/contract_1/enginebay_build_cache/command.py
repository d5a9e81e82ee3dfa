"""The command ``enginebay-cache``: list builds, explain why a build ran, delete all builds."""

from __future__ import annotations

import argparse
import sys
from datetime import datetime
from typing import TYPE_CHECKING

from enginebay.errors import EnginebayError, UsageError
from enginebay_build_cache.store import Entry, Store

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code: 0, or 2 if the arguments are wrong."""
    parser = _make_parser()
    args = parser.parse_args(argv)
    try:
        lines = args.run(Store.from_environment(), args)
    except EnginebayError as err:
        sys.stderr.write(f"error: {err}\n" + (f"hint: {err.hint}\n" if err.hint else ""))
        return err.exit_code
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="enginebay-cache", description="List, explain and delete cached builds."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, text in (
        ("list", _list_builds, "list the builds, the most recently used first"),
        ("explain", _explain_build, "explain why a build was not in the cache"),
        ("clear", _clear_builds, "delete all builds"),
    ):
        command = commands.add_parser(name, help=text, description=f"{text.capitalize()}.")
        command.set_defaults(run=run)
        if run is _explain_build:
            command.add_argument(
                "build",
                nargs="?",
                default="",
                help="the name of a build, or the start of the name; default: the last build",
            )
    return parser


def _list_builds(store: Store, _args: argparse.Namespace) -> list[str]:
    entries = store.entries()
    used = sum(entry.size for entry in entries)
    lines = [_format_entry(entry) for entry in entries]
    return [
        *lines,
        f"{_count_builds(len(entries))}, {used} of {store.limit} bytes, in {store.root}",
    ]


def _explain_build(store: Store, args: argparse.Namespace) -> list[str]:
    entry = _find_entry(store, args.build)
    return [_format_entry(entry), *(f"  {line}" for line in entry.about.missed)]


def _clear_builds(store: Store, _args: argparse.Namespace) -> list[str]:
    return [f"{_count_builds(store.clear())} deleted from {store.root}"]


def _count_builds(number: int) -> str:
    return "1 build" if number == 1 else f"{number} builds"


def _format_entry(entry: Entry) -> str:
    built = datetime.fromtimestamp(entry.about.built).isoformat(" ", "seconds")
    # The values of a key are JSON: the name has quotation marks.
    backend = entry.about.key.get("backend", "").strip('"')
    took = f"built {built} in {entry.about.seconds:.1f} s"
    return f"{entry.digest[:12]}  {backend}  {entry.size} bytes  {took}"


def _find_entry(store: Store, start: str) -> Entry:
    built = sorted(store.entries(), key=lambda entry: entry.about.built, reverse=True)
    matches = [entry for entry in built if entry.digest.startswith(start)]
    if not built:
        raise UsageError(f"the build cache '{store.root}' is empty")
    if not matches or (start and len(matches) > 1):
        raise UsageError(
            f"expected one build whose name starts with '{start}' in the cache '{store.root}', "
            f"found {len(matches)}",
            hint="enginebay-cache list",
        )
    return matches[0]
