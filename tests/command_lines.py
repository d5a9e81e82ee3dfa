"""Parsers of commands, for tests of the words and the lines that pages and hints show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.cli import command_parser
from enginebay.cli.installed_commands import import_command

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Sequence


def parser_of(command: str, argv: Sequence[str] = ()) -> ArgumentParser:
    """Return the parser of a command, with the flags of the backend that ``argv`` names."""
    return command_parser(command, import_command(command), [*argv])


def parse_line(words: Sequence[str]) -> Namespace:
    """Parse a command line without its first word, ``enginebay``.

    Raises:
        UsageError: The line is wrong.
    """
    command, *argv = words
    return parser_of(command, argv).parse_args(argv)
