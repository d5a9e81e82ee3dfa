"""Commands: core's own, and those that other distributions bring; listed without an import."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from enginebay.plugins import BackendStatus

#: Core's own commands, in the order of ``enginebay --help``.
OWN = (
    *("backends", "check-env", "preview", "deploy", "export", "convert", "run", "verify"),
    *("inspect", "config", "rewriters", "new-backend", "completion"),
)

_SUMMARY = re.compile(r'"""(?:``[^`]*``: )?(.+?)\.?(?:""")?$')


def installed_commands() -> list[BackendStatus]:
    """The commands of other distributions, sorted by name; none can take the name of core's."""
    from enginebay.plugins import list_commands  # core's own commands need no listing

    return list_commands(reserved=OWN)


def all_commands() -> list[str]:
    """The names that users can type."""
    return [*OWN, *(each.name for each in installed_commands() if each.state == "installed")]


def summary(module: str) -> str:
    """Return what the first line of a module's docstring says, without importing it.

    Example:
        >>> summary("enginebay.cli.deploy")
        'turn a model into a verified artifact'
    """
    from enginebay.plugins import module_file

    try:
        with open(module_file(module), encoding="utf-8") as file:  # noqa: PTH123  # pathlib is half of a start
            found = _SUMMARY.match(file.readline())
    except (OSError, UnicodeError, ValueError):
        return ""
    return found[1] if found else ""


def module_of(name: str) -> str:
    """The module of one of core's own commands."""
    return f"enginebay.cli.{name.replace('-', '_')}"


def command(name: str) -> ModuleType:
    """Import the module of one command.

    Raises:
        UsageError: There is no such command.
        MissingDependencyError: A distribution that is not installed has it.
        PluginError: The plugin that brings it is broken, or two bring it.
    """
    if name in OWN:
        from importlib import import_module

        return import_module(module_of(name))
    for status in installed_commands():
        if status.name == name:
            from enginebay.plugins import load_command

            return load_command(status)
    from enginebay.errors import MissingDependencyError, UsageError, nearest
    from enginebay.plugins import KNOWN_COMMANDS

    if name in KNOWN_COMMANDS:
        distribution = KNOWN_COMMANDS[name]
        raise MissingDependencyError(
            f"'enginebay {name}' is a command of {distribution}, which is not installed",
            hint=f"pip install {distribution}",
        )
    known = all_commands()
    close = nearest(name, [*known, *KNOWN_COMMANDS])
    raise UsageError(
        f"'{name}' is not a command; wanted one of {', '.join(known)}",
        hint=f"did you mean 'enginebay {close}'?" if close else "enginebay -h",
    )
