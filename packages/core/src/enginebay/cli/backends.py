"""``enginebay backends``: list the installed backends."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from enginebay.cli.installed_commands import installed_commands
from enginebay.cli.output import (
    print_json,
    print_message,
    print_none_installed,
    print_table,
    styled,
)
from enginebay.plugins import list_backends, list_plugins, unknown_disabled_plugins

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EXAMPLES = ("enginebay backends", "enginebay backends --load --json")


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's flag."""
    parser.usage = "enginebay backends [--load] [--json]"
    parser.add_argument(
        "--load", action="store_true", help="import each plugin, and show the broken ones"
    )


def run(args: Namespace) -> int:
    """Print the installed backends, plugins and commands; return 0 even if some are broken."""
    if args.load:
        _load_plugins(show_chains=args.traceback)
    groups = (list_backends(), list_plugins(), installed_commands())
    if args.json:
        rows = [[status._asdict() for status in group] for group in groups]
        print_json(dict(zip(("backends", "plugins", "commands"), rows, strict=True)))
        return 0
    if not groups[0]:
        print_none_installed()
    for title, statuses in zip(("NAME", "PLUGIN", "COMMAND"), groups, strict=True):
        if statuses:
            print_table(
                (title, "STATE", "DISTRIBUTION", "REASON"),
                [(s.name, s.state, s.provider, s.reason or "") for s in statuses],
            )
    # A set: two distributions that provide the same backend have the same fix.
    fixes = {(each.name, each.fix) for group in groups for each in group if each.fix}
    for name, fix in sorted(fixes):
        print_message(f"{styled(f'{name}:', 'red', sys.stderr)} {fix}")
    if unknown := unknown_disabled_plugins():
        print_message(unknown)
    return 0


def _load_plugins(*, show_chains: bool) -> None:
    """Import every plugin to detect errors; with ``show_chains``, print the errors' tracebacks."""
    import warnings
    from contextlib import suppress

    from enginebay.errors import PluginError
    from enginebay.plugins import (
        PluginWarning,
        forget_failures,
        load_backend,
        load_command,
        load_plugins,
    )

    # Plugins that failed before are tried again.
    forget_failures()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)  # the list shows it
        load_plugins()
    for status in list_backends():
        with suppress(PluginError):  # the list shows it
            load_backend(status.name)
    for status in installed_commands():
        with suppress(PluginError):
            load_command(status)
    if show_chains:
        _print_chains()


def _print_chains() -> None:
    import traceback

    from enginebay.plugins import load_faults

    for (_, name, _), fault in load_faults.items():
        if fault.cause is not None:
            print_message(f"{styled(f'{name}:', 'red', sys.stderr)} {fault.reason}")
            traceback.print_exception(fault.cause, file=sys.stderr)
