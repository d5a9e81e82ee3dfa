"""An argparse parser that raises Enginebay's errors, which have a hint and exit code 2."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, HelpFormatter
from typing import TYPE_CHECKING, Any, NoReturn

from enginebay.cli.output import terminal_width
from enginebay.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import SupportsWrite

_UNKNOWN = "unrecognized arguments: "
#: What to type instead of other tools' flags.
_INSTEAD = {
    "-b": "--backend NAME",
    "--format": "--backend NAME",
    "--target": "--backend NAME",
    "--imgsz": "--input NAME=1x3xHEIGHTxWIDTH",
    "--shape": "--input NAME=1x3xHEIGHTxWIDTH",
    **dict.fromkeys(("--fp16", "--half", "--int8"), "--precision fp16, or int8 with --data DATA"),
    "--batch": "--dynamic batch",
    "--dynamic-axes": "--dynamic x:0",
    "--output": "--work-dir FOLDER",
    "--seconds": "--duration SECONDS",
}


class Parser(ArgumentParser):
    """A parser that raises an error where argparse would print the usage and exit.

    Args:
        examples: Command lines to print, without wrapping, at the end of the help.
    """

    def __init__(self, *, examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(formatter_class=_make_formatter, **options)
        self._examples = tuple(examples)

    @property
    def examples(self) -> list[str]:
        """The example command lines, with the default backend in place of ``{backend}``."""
        from enginebay.plugins import preferred_backend

        return [line.replace("{backend}", preferred_backend()) for line in self._examples]

    def format_help(self) -> str:
        """Return the help, followed by the examples."""
        lines = [f"  {line}\n" for line in self.examples]
        return super().format_help() + (f"\nexamples:\n{''.join(lines)}" if lines else "")

    def error(self, message: str) -> NoReturn:
        """Raise an error about a wrong command line.

        Raises:
            UsageError: Always.
        """
        hint = f"{self.prog} -h"
        # argparse tells an unknown flag by its text only.
        if message.startswith(_UNKNOWN):
            unknown = message.removeprefix(_UNKNOWN)
            message = f"'{unknown}' is not among the arguments of {self.prog}"
            from enginebay.errors import nearest
            from enginebay.plugins import command_with

            flag = unknown.split()[0].partition("=")[0]
            word = flag.lstrip("-")
            # Without dashes, which would make any two flags similar.
            close = nearest(word, [flag.lstrip("-") for flag in self._option_string_actions])
            instead = _INSTEAD.get(flag) or command_with(flag)
            hint = instead or (f"did you mean --{close}?" if close else hint)
        raise UsageError(message, hint=hint)

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print the help; raise any OSError of the stream: argparse would ignore the error."""
        (file or sys.stdout).write(self.format_help())


def _make_formatter(prog: str) -> HelpFormatter:
    # argparse makes a formatter for each argument. Without a width, it would import shutil.
    return HelpFormatter(prog, width=terminal_width() - 2)
