"""Command line tool of a backend."""

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
    """Protocol of a backend: the members that its command line tool uses."""

    name: str

    def parse_args(
        self, parser: ArgumentParser, args: Sequence[str] | None = None
    ) -> AbstractContextManager[Namespace]:
        """Yield the parsed arguments; convert the IR file at the end of the ``with`` block."""
        ...


def run(backend: Converter, argv: Sequence[str] | None) -> None:
    """Convert the IR file that ``argv`` names; None means the arguments of this process.

    Raises:
        SystemExit: After an error, with the error's exit code; after ``--help``, with 0.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["convert"]:
        del words[0]
    program = _program() if argv is None else backend.name
    parser = ArgumentParser(
        prog=f"{program} convert", description=f"Convert an IR file with {backend.name}."
    )
    try:
        with backend.parse_args(parser, words):
            pass
    except EnginebayError as err:
        hint = f"\nhint: {err.hint}" if err.hint else ""
        sys.stderr.write(f"error: {' '.join(str(err).split())}{hint}\n")
        raise SystemExit(err.exit_code) from err


def _program() -> str:
    """Return the command that started this process, as the user typed it."""
    path = Path(sys.argv[0])
    return f"python -m {path.parent.name}" if path.name == "__main__.py" else path.name
