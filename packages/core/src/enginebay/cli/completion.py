"""``enginebay completion``: print a shell script that completes enginebay's commands."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from enginebay.cli.output import print_json, print_message

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

EXAMPLES = ('eval "$(enginebay completion bash)"',)

SHELLS = ("bash", "zsh", "fish", "tcsh")

#: The metavars of arguments that are files.
_FILES = ("MODEL", "IR", "FILE", "FILE.npz", "ARTIFACT", "ARTIFACT|IR", "SWEEP", "ROWS.jsonl")
_FOLDERS = ("FOLDER",)

#: The commands with flags for a backend's parameters.
_WITH_PARAMETERS = ("deploy", "convert", "check-env")

#: Arguments with which the flags of a broken backend are omitted, instead of an error.
_HELP = ["-h"]


def add_arguments(parser: ArgumentParser, argv: list[str]) -> None:  # noqa: ARG001  # every command's signature
    """Add the command's arguments."""
    parser.usage = "enginebay completion SHELL"
    parser.epilog = (
        'bash: add eval "$(enginebay completion bash)" to ~/.bashrc. '
        "zsh: enginebay completion zsh > FOLDER/_enginebay, with FOLDER in $fpath. "
        "fish: enginebay completion fish > ~/.config/fish/completions/enginebay.fish. "
        "tcsh: enginebay completion tcsh > FILE, and source FILE in ~/.tcshrc."
    )
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


def run(args: Namespace) -> int:
    """Print the script, which contains the names of the installed backends; return 0."""
    import shtab

    script = shtab.complete(_build_parser(), args.shell)
    if args.json:
        print_json({"shell": args.shell, "script": script})
    else:
        sys.stdout.write(script)
    return 0


def _build_parser() -> ArgumentParser:
    """Return the parser from which shtab writes the script: each command is a subparser."""
    import shtab

    from enginebay.cli import add_common, parser_options
    from enginebay.cli.installed_commands import all_commands, import_command
    from enginebay.cli.parser import Parser
    from enginebay.errors import PluginError
    from enginebay.plugins import list_backends

    backends = [status.name for status in list_backends()]
    parser_of_all = Parser(prog="enginebay")
    commands = parser_of_all.add_subparsers(parser_class=Parser)
    for name in all_commands():
        try:
            module = import_command(name)
        except PluginError as err:
            # A broken plugin must not cost the completion of all other commands.
            print_message(f"note: {name} is omitted: {err}")
            continue
        options = parser_options(module)
        parser = commands.add_parser(name, help=options["description"], **options)
        add_common(parser)
        module.add_arguments(parser, _HELP)
        if name in _WITH_PARAMETERS:
            for backend in backends:
                _add_missing_flags(parser, backend)
        # argparse has no public list of arguments.
        for action in parser._actions:
            if action.metavar in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # shtab's own attribute
            elif action.metavar in _FOLDERS:
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
            elif action.metavar == "NAME" and action.dest in ("backend", "name", "names"):
                action.choices = backends
    return parser_of_all


def _add_missing_flags(parser: ArgumentParser, backend: str) -> None:
    from enginebay.cli.arguments import add_backend_flags
    from enginebay.cli.parser import Parser

    backend_parser = Parser(add_help=False)
    add_backend_flags(backend_parser, backend, _HELP)
    for action in backend_parser._actions:
        if not parser._option_string_actions.keys() & set(action.option_strings):
            parser._add_action(action)
