"""Names and summaries of all installed commands, read without importing the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from enginebay.plugins import BackendStatus

#: Core's own commands, in the order of ``enginebay --help``.
OWN = (
    *("backends", "check-env", "deploy", "export", "convert", "run", "verify"),
    *("inspect", "rewriters", "completion"),
)


def installed_commands() -> list[BackendStatus]:
    """Return the status of each plugin's command; it is disabled if core has one of this name."""
    from enginebay.plugins import (
        list_commands,  # not at the top: core's own commands start without it
    )

    return list_commands(reserved=OWN)


def all_commands() -> list[str]:
    """Return the names of all usable commands."""
    return [*OWN, *(s.name for s in installed_commands() if s.state == "installed")]


def read_short_help(name: str) -> str:
    """Return the text beside a command's module, such as ``deploy.txt``; empty without one."""
    file = __file__.replace("installed_commands", name.replace("-", "_"))
    if name not in OWN:
        from enginebay.plugins import module_file

        modules = [status.module for status in installed_commands() if status.name == name]
        file = module_file(modules[0]) if modules else ""
    return _read(f"{file.removesuffix('.py')}.txt") if file else ""


def read_summary(module: str) -> str:
    """Return the summary from a module's docstring, without importing the module.

    The summary is the docstring's first line, from which the command's name is removed. It is empty
    if the module does not begin with a docstring.

    Example:
        >>> read_summary("enginebay.cli.deploy")
        'turn a model into a verified artifact'
    """
    from enginebay.plugins import module_file

    line = _read(module_file(module), 200).partition("\n")[0].rstrip()
    return summarize(line[3:].removesuffix('"""')) if line.startswith('"""') else ""


def _read(file: str, characters: int = -1) -> str:
    """Return the text of a file, or its first characters; empty if it cannot be read."""
    try:
        with open(file, encoding="utf-8") as stream:  # noqa: PTH123  # pathlib takes half of the start-up time
            return stream.read(characters)
    except (OSError, UnicodeError, ValueError):
        return ""


def summarize(docstring: str | None) -> str:
    """Return the first line of a docstring without the command's name and the final full stop."""
    line = (docstring or "").partition("\n")[0]
    return (line.partition("``: ")[2] if line.startswith("``") else line).removesuffix(".")


def module_of(name: str) -> str:
    """Return the name of the module of a core command."""
    return f"enginebay.cli.{name.replace('-', '_')}"


def import_command(name: str) -> ModuleType:
    """Import and return the module of one command.

    Raises:
        UsageError: The command does not exist.
        MissingDependencyError: The command's distribution is not installed.
        PluginError: The command's plugin is broken, or two distributions provide the command.
    """
    if name in OWN:
        from importlib import import_module

        return import_module(module_of(name))
    for status in installed_commands():
        if status.name == name:
            from enginebay.plugins import load_command

            return load_command(status)
    # Not at the top: only an unknown name needs them.
    from enginebay.errors import MissingDependencyError, UsageError, nearest
    from enginebay.installation import install_command
    from enginebay.plugins import known_packages

    packages = known_packages("commands")
    if distribution := packages.get(name):
        raise MissingDependencyError(
            f"'enginebay {name}' is a command of {distribution}, which is not installed",
            hint=install_command(distribution),
        )
    known = all_commands()
    close = nearest(name, [*known, *packages])
    raise UsageError(
        f"'{name}' is not a command; available: {', '.join(known)}",
        hint=f"did you mean 'enginebay {close}'?" if close else "enginebay -h",
    )
