"""The command line: each command is a module that parses arguments and prints results.

The module has the functions ``add_arguments(parser, argv)`` and ``run(args)``. The modules of
core's commands are in this package; an entry point of the group ``enginebay.commands`` refers to
the module of any other command. Only the module of the requested command is imported. Data goes to
stdout, messages go to stderr.

A command with many flags has the help of those that most people need as a text beside its module:
``-h`` prints ``deploy.txt`` and imports nothing, ``--help-all`` lists every flag.
"""

from __future__ import annotations

import atexit
import gc
import sys

# Not from typing, whose import takes half of the time of `enginebay --version`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Sequence
    from types import ModuleType
    from typing import Any

    from enginebay.cli.parser import Parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit code.

    Args:
        argv: The arguments after the program's name; by default the process's arguments.

    Returns:
        The exit code: 0 ok, 1 failed, 2 usage, 3 backend or command unavailable, 130 interrupted.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments in (["--version"], ["-V"]):
        # Scripts call this often, so it must be fast: import nothing before it.
        from enginebay.version import __version__

        sys.stdout.write(f"enginebay {__version__}\n")
        return 0
    if sys.platform == "win32":  # checked here: the signal handlers below require POSIX
        from enginebay.errors import windows_error

        error = windows_error()
        sys.stderr.write(f"error: {error}\nhint: {error.hint}\n")
        return error.exit_code
    # Python's own end scans all objects several times: with torch, a fifth of a deployment's time.
    atexit.register(gc.freeze)
    from enginebay.cli.exit_codes import exit_code

    return exit_code(arguments, _run_command)


def _run_command(arguments: list[str]) -> int:
    if not arguments:
        sys.stderr.write(_format_help())
        return 2
    if arguments[0] == "help":  # "enginebay help deploy", like git
        arguments = [*arguments[1:], "-h"]
    if arguments[0] in ("-h", "--help"):
        sys.stdout.write(_format_help())
        return 0
    from enginebay.errors import check_text

    for argument in arguments:
        check_text(argument)
    from enginebay.cli.installed_commands import import_command, read_short_help

    name, rest = arguments[0], arguments[1:]
    if {"-h", "--help"} & set(rest) and (text := read_short_help(name)):
        sys.stdout.write(text)
        return 0
    module = import_command(name)
    parser = command_parser(name, module, rest)
    try:
        args = parser.parse_args(rest)
    except SystemExit:  # argparse exits after -h; Parser.error raises UsageError instead
        return 0
    # Commands record the line that was typed, and look for backends in it.
    args.argv = arguments
    if args.verbose:
        _show_log()
    code: int = module.run(args)
    return code


def _show_log() -> None:
    """Show on stderr what Enginebay logs, and first the versions of what is installed."""
    import logging
    import platform

    from enginebay.environment import installed_version
    from enginebay.isolation import show_log
    from enginebay.plugins import list_backends

    show_log()
    versions = {status.distribution: status.version for status in list_backends()}
    for name in ("enginebay", "torch", "onnx", "onnxscript", "numpy"):
        versions[name] = installed_version(name) or "is not installed"
    text = ", ".join(f"{name} {version}" for name, version in versions.items())
    logging.getLogger("enginebay.versions").debug("Python %s, %s", platform.python_version(), text)


def _format_help() -> str:
    from enginebay.cli.installed_commands import OWN, installed_commands, module_of, read_summary

    groups = {"commands": [(name, read_summary(module_of(name))) for name in OWN]}
    for status in installed_commands():
        text = f"{status.state}: {status.reason}" if status.reason else read_summary(status.module)
        groups.setdefault(f"commands of {status.provider}", []).append((status.name, text))
    width = max(len(name) for rows in groups.values() for name, _ in rows)
    sections = "\n\n".join(
        "\n".join([f"{title}:", *(f"  {name:<{width}}  {text}".rstrip() for name, text in rows)])
        for title, rows in groups.items()
    )
    return (
        "usage: enginebay COMMAND ...\n\n"
        "Turn a PyTorch model into a verified artifact on any inference engine.\n\n"
        f"{sections}\n\n"
        "enginebay help COMMAND lists its arguments, enginebay -V prints the version.\n"
        "Exit codes: 0 ok, 1 failed, 2 usage, 3 backend or command unavailable, 130 interrupted.\n"
    )


def command_parser(name: str, module: ModuleType, argv: list[str]) -> Parser:
    """Return the parser of one command.

    Args:
        name: The command's name.
        module: The command's module.
        argv: The arguments that will be parsed. If these contain a backend's name, the parser also
            gets the flags of this backend.
    """
    from enginebay.cli.parser import Parser

    parser = Parser(prog=f"enginebay {name}", **parser_options(module))
    add_common(parser)
    module.add_arguments(parser, argv)
    return parser


def parser_options(module: ModuleType) -> dict[str, Any]:
    """Return the keyword arguments with which a command's :class:`Parser` is created."""
    from enginebay.cli.installed_commands import summarize

    text = summarize(module.__doc__)
    return {
        "description": f"{text[:1].upper()}{text[1:]}.",
        # flag_values() finds no abbreviated flag in an unparsed command line.
        "allow_abbrev": False,
        "examples": getattr(module, "EXAMPLES", ()),
    }


def add_common(parser: ArgumentParser) -> None:
    """Add the flags that all commands have: ``--help-all``, ``--traceback``, ``--json``, ``-v``."""
    parser.add_argument("--help-all", action="help", help="list every flag and exit")
    parser.add_argument(
        "--traceback",
        action="store_true",
        help="print the traceback of an error, including those of its causes",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document, also for an error"
    )
    text = "show on stderr what happens: versions, exporters, rewriters, files, engines' output"
    parser.add_argument("-v", "--verbose", action="store_true", help=text)
