"""The command line: one file per command, nothing but parsing and printing.

A command is a module with ``add_arguments(parser, argv)`` and ``run(args)``, of this package or one
that an entry point of ``enginebay.commands`` names; only the requested one is imported. Data goes
to stdout, messages go to stderr.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Sequence
    from types import ModuleType

    from enginebay.cli.parser import Parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: The arguments after the program's name; those of the process by default.

    Returns:
        The exit code: 0 ok, 1 the operation failed, 2 usage, 3 backend or command unavailable,
        130 interrupted.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments in (["--version"], ["-V"]):
        # Scripts ask for this one often: nothing is imported before it.
        from enginebay.version import __version__

        sys.stdout.write(f"enginebay {__version__}\n")
        return 0
    if sys.platform == "win32":  # here, since handling signals already needs POSIX
        from enginebay.errors import windows_error

        error = windows_error()
        sys.stderr.write(f"error: {error}\nhint: {error.hint}\n")
        return error.exit_code
    from enginebay.cli.exit_codes import exit_code

    return exit_code(arguments, _run)


def _run(arguments: list[str]) -> int:
    if not arguments:
        sys.stderr.write(_help())
        return 2
    if arguments[0] == "help":  # enginebay help deploy, as git has it
        arguments = [*arguments[1:], "-h"]
    if arguments[0] in ("-h", "--help"):
        sys.stdout.write(_help())
        return 0
    from enginebay.errors import check_text

    for argument in arguments:
        check_text(argument)
    from enginebay.cli.installed_commands import command

    name, rest = arguments[0], arguments[1:]
    module = command(name)
    parser = command_parser(name, module, rest)
    try:
        args = parser.parse_args(rest)
    except SystemExit:  # argparse, after -h; any other exit is a failure
        return 0
    args.argv = arguments
    if args.verbose:
        import logging

        logging.basicConfig(format="%(name)s: %(message)s")
        logging.getLogger("enginebay").setLevel(logging.DEBUG)
    code: int = module.run(args)
    return code


def _help() -> str:
    from enginebay.cli.installed_commands import OWN, installed_commands, module_of, summary

    groups = {"commands": [(name, summary(module_of(name))) for name in OWN]}
    for status in installed_commands():
        text = f"{status.state}: {status.reason}" if status.reason else summary(status.module)
        groups.setdefault(f"commands of {status.provider}", []).append((status.name, text))
    width = max(len(name) for rows in groups.values() for name, _ in rows)
    listed = "\n\n".join(
        "\n".join([f"{title}:", *(f"  {name:<{width}}  {text}".rstrip() for name, text in rows)])
        for title, rows in groups.items()
    )
    return (
        "usage: enginebay COMMAND ...\n\n"
        "Turn a PyTorch model into a verified artifact on any inference engine.\n\n"
        f"{listed}\n\n"
        "enginebay help COMMAND lists its arguments, enginebay -V prints the version.\n"
        "Exit codes: 0 ok, 1 failed, 2 usage, 3 backend or command unavailable, 130 interrupted.\n"
    )


def command_parser(name: str, module: ModuleType, argv: list[str]) -> Parser:
    """Return the parser of one command.

    Args:
        name: The command.
        module: Its module.
        argv: The arguments to parse later: a backend named among them adds flags of its own.
    """
    from enginebay.cli.parser import Parser

    parser = Parser(prog=f"enginebay {name}", **parser_options(module))
    add_common(parser)
    module.add_arguments(parser, argv)
    return parser


def parser_options(module: ModuleType) -> dict[str, Any]:
    """Return the options that a command's parser is made with."""
    from enginebay.cli.installed_commands import summary

    text = summary(module.__name__)
    return {
        "description": f"{text[:1].upper()}{text[1:]}.",
        "allow_abbrev": False,
        "examples": getattr(module, "EXAMPLES", ()),
    }


def add_common(parser: ArgumentParser) -> None:
    """Add the flags of every command."""
    parser.add_argument(
        "--traceback", action="store_true", help="show the whole chain behind an error"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document, also about an error"
    )
    text = "show what converters and engines print, and the rest of the log, on stderr"
    parser.add_argument("-v", "--verbose", action="store_true", help=text)
