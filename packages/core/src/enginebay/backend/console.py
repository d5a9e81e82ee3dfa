"""A backend as a console tool."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from enginebay.errors import EnginebayError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from contextlib import AbstractContextManager


class Converter(Protocol):
    """The part of a backend that its console tool needs."""

    name: str

    def parse_args(
        self, parser: ArgumentParser, args: Sequence[str] | None = None
    ) -> AbstractContextManager[Namespace]:
        """Parse the arguments, and convert when the block ends well."""
        ...


def run(backend: Converter, argv: Sequence[str] | None) -> None:
    """Convert the IR file that the command line names.

    Raises:
        SystemExit: With the error's exit code, or 0 after the help.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["convert"]:
        del words[0]
    parser = ArgumentParser(
        prog=f"{_program()} convert", description=f"Convert an IR file with {backend.name}."
    )
    try:
        with backend.parse_args(parser, words):
            pass
    except EnginebayError as err:
        hint = f"\nhint: {err.hint}" if err.hint else ""
        sys.stderr.write(f"error: {' '.join(str(err).split())}{hint}\n")
        raise SystemExit(err.exit_code) from err


def _program() -> str:
    """The command that was typed to get here."""
    path = Path(sys.argv[0])
    return f"python -m {path.parent.name}" if path.name == "__main__.py" else path.name
