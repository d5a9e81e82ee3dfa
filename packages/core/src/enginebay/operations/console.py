"""Command line tool of a backend."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.errors import EnginebayError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager


def run(
    name: str,
    parse_args: Callable[[ArgumentParser, Sequence[str]], AbstractContextManager[object]],
    argv: Sequence[str] | None,
) -> None:
    """Convert the IR file that ``argv`` names; None means the arguments of this process.

    Args:
        name: The backend's name.
        parse_args: The backend's method, which converts at the end of its ``with`` block.
        argv: The arguments.

    Raises:
        SystemExit: After an error, with the error's exit code; after ``--help``, with 0.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["convert"]:
        del words[0]
    path = Path(sys.argv[0])
    started = f"python -m {path.parent.name}" if path.name == "__main__.py" else path.name
    program = started if argv is None else name
    parser = ArgumentParser(
        prog=f"{program} convert", description=f"Convert an IR file with {name}."
    )
    try:
        with parse_args(parser, words):
            pass
    except EnginebayError as err:
        hint = f"\nhint: {err.hint}" if err.hint else ""
        sys.stderr.write(f"error: {' '.join(str(err).split())}{hint}\n")
        raise SystemExit(err.exit_code) from err
