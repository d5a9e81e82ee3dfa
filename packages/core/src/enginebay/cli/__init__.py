"""The command line: one file per command, nothing but parsing and printing.

A command is a module of this package with ``add_arguments(parser, argv)`` and ``run(args)``; only
the requested one is imported. Data goes to stdout, messages go to stderr.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Sequence
    from types import ModuleType

    from enginebay.cli.parser import Parser

#: The commands and their descriptions, in the order of ``enginebay --help``.
COMMANDS = {
    "backends": "list the installed backends",
    "check-env": "check what a backend needs, in four tiers",
    "preview": "list all operators that stand between a model and the engines",
    "deploy": "turn a model into a verified artifact",
    "export": "turn a model into an IR: ONNX, TorchScript or ExportedProgram",
    "convert": "turn an IR into a backend's artifact",
    "run": "run an artifact on inputs",
    "verify": "compare an artifact with its model again",
    "evaluate": "measure what artifacts cost in accuracy, beside PyTorch on a data set",
    "sweep": "deploy many models on many backends, on this machine or a cluster",
    "sensitivity": "measure what each layer of an int8 engine costs",
    "benchmark": "measure how fast artifacts are here, side by side, and beside PyTorch",
    "report": "write one page about a model's artifacts, or a sweep of many models",
    "inspect": "show what an artifact or an IR file holds",
    "config": "show or check a deploy config",
    "rewriters": "list what is rewritten when a model is exported for a backend",
    "new-backend": "write a package for an engine of your own",
    "completion": "print a shell script that completes these commands",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: The arguments after the program's name; those of the process by default.

    Returns:
        The exit code: 0 ok, 1 the operation failed, 2 usage, 3 backend unavailable,
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
    name, rest = arguments[0], arguments[1:]
    parser = command_parser(name, rest)
    try:
        args = parser.parse_args(rest)
    except SystemExit:  # argparse, after -h; any other exit is a failure
        return 0
    args.argv = arguments
    code: int = command(name).run(args)
    return code


def _help() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items())
    return (
        "usage: enginebay COMMAND ...\n\n"
        "Turn a PyTorch model into a verified artifact on any inference engine.\n\n"
        f"commands:\n{commands}\n\n"
        "enginebay help COMMAND lists its arguments, enginebay -V prints the version.\n"
        "Exit codes: 0 ok, 1 the operation failed, 2 usage, 3 backend unavailable, "
        "130 interrupted.\n"
    )


def command(name: str) -> ModuleType:
    """Import the module of one command.

    Raises:
        UsageError: There is no such command.
    """
    from importlib import import_module

    if name in COMMANDS:
        return import_module(f"enginebay.cli.{name.replace('-', '_')}")
    from enginebay.errors import UsageError, nearest

    close = nearest(name, COMMANDS)
    raise UsageError(
        f"'{name}' is not a command; wanted one of {', '.join(COMMANDS)}",
        hint=f"did you mean 'enginebay {close}'?" if close else "enginebay -h",
    )


def command_parser(name: str, argv: list[str]) -> Parser:
    """Return the parser of one command.

    Args:
        name: The command.
        argv: The arguments to parse later: a backend named among them adds flags of its own.

    Raises:
        UsageError: There is no such command.
    """
    from enginebay.cli.parser import Parser

    module = command(name)
    parser = Parser(prog=f"enginebay {name}", **parser_options(name))
    add_common(parser)
    module.add_arguments(parser, argv)
    return parser


def parser_options(name: str) -> dict[str, Any]:
    """Return the options that a command's parser is made with."""
    from enginebay.cli.examples import EXAMPLES

    text = COMMANDS[name]
    return {
        "description": f"{text[0].upper()}{text[1:]}.",
        "allow_abbrev": False,
        "examples": EXAMPLES[name],
    }


def add_common(parser: ArgumentParser) -> None:
    """Add the flags of every command."""
    parser.add_argument(
        "--traceback", action="store_true", help="show the whole chain behind an error"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document, also about an error"
    )
