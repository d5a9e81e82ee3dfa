"""Printing for all commands: JSON, tables and fields on stdout, messages on stderr.

In a file or a pipe, each table row is one plain and complete line, for ``grep``. On a terminal,
cells are wrapped at words. ``rich`` is imported for a terminal only, since its import is slow.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from enginebay.display import COLOUR_CODE, SCHEMA, Fields, Table, labelled, printable, table_lines

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import TextIO

    from rich.console import Console

    from enginebay.display import Block

#: Fields that users copy into a shell: they must not be wrapped.
_COPIED = ("command",)
#: Characters of a digest that are shown on a narrow terminal.
_DIGEST_WIDTH = 12
#: The colours of first words in cells and lines.
_COLOURS = {
    "verified": "green",
    "unverified": "yellow",
    "random": "yellow",
    **dict.fromkeys(("mismatched", "crashed", "failed"), "red"),
}


@contextmanager
def stdout_on_stderr() -> Iterator[None]:
    """In the ``with`` block, redirect ``sys.stdout`` to stderr, since stdout is only for data."""
    from contextlib import redirect_stdout

    with redirect_stdout(sys.stderr):
        yield


def print_json(document: Mapping[str, object]) -> None:
    """Print one JSON document on stdout."""
    import json

    sys.stdout.write(json.dumps({"schema": SCHEMA, **document}, indent=2) + "\n")


def print_none_installed() -> None:
    """Print the message for a command that requires a backend if none is installed."""
    from enginebay.installation import install_command
    from enginebay.plugins import known_packages, preferred_backend

    command = install_command(known_packages("backends")[preferred_backend()])
    print_message(f"No backend is installed. hint: {command}")


def print_message(text: str) -> None:
    """Print a line on stderr."""
    sys.stderr.write(text + "\n")


def styled(text: str, style: str, stream: TextIO) -> str:
    """Return a text with the escape codes of a rich style; unchanged if ``stream`` is no terminal.

    With the environment variable FORCE_COLOR, the text is styled for any ``stream``. With NO_COLOR,
    the text is never styled.
    """
    if not (stream.isatty() or os.environ.get("FORCE_COLOR")):
        return text
    from rich.style import Style

    return Style.parse(style).render(text) if _make_console(stream).color_system else text


def print_blocks(blocks: Iterable[Block]) -> None:
    """Print a result's blocks (tables, fields and lines of text) on stdout."""
    for block in blocks:
        if isinstance(block, Table):
            print_table(block.header, block.rows, right=block.right)
        elif isinstance(block, Fields):
            print_fields(block.pairs)
        else:
            print_labelled("", _colour_verdict(printable(block)))


def print_table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Collection[str] = (),
    digests: Collection[str] = (),
) -> None:
    """Print aligned columns on stdout.

    On a terminal, cells are wrapped at words. If the terminal is too narrow for the longest words,
    the cells of a row are printed one below the other.

    Args:
        header: The columns' names.
        rows: The rows, with one text for each column.
        right: The names of columns with numbers, which are right-aligned.
        digests: The names of columns with digests; a narrow terminal may show only the beginning of
            a digest.
    """
    lines = [tuple(map(printable, row)) for row in rows]
    columns = list(zip(header, *lines, strict=True))
    if not sys.stdout.isatty():
        # Files and pipes get whole rows without rich, which is slow to import.
        first, *others = table_lines(header, lines, right)
        sys.stdout.write("\n".join([styled(first, "bold", sys.stdout), *others, ""]))
    elif widths := _fit_widths(columns, right, digests):
        _print_wrapped(columns, widths, right)
    else:
        for line in lines:
            print_fields(zip(map(str.lower, header), line, strict=True))
            sys.stdout.write("\n")


def _fit_widths(
    columns: Sequence[Sequence[str]], right: Collection[str], digests: Collection[str]
) -> list[int] | None:
    """Return the columns' widths on this terminal; None if the longest words do not fit.

    A number and its unit count as one word.
    """
    from rich.cells import cell_len

    def minimum_width(header: str, *cells: str) -> int:
        if header in digests:
            return _DIGEST_WIDTH
        whole = cells if header in right else " ".join(cells).split()
        return max(map(cell_len, (*header.split(), *whole)), default=0)

    widths = [max(map(cell_len, column)) for column in columns]
    least = [minimum_width(*column) for column in columns]
    # Two blanks between columns, and one at the end: without it, rich would cut a column.
    excess = sum(widths) + 2 * (len(widths) - 1) + 1 - terminal_width()
    # Narrow the most compressible column first: prose before names.
    for number in sorted(range(len(widths)), key=lambda n: least[n] - widths[n]):
        cut = max(0, min(excess, widths[number] - least[number]))
        widths[number] -= cut
        excess -= cut
    return None if excess > 0 else widths


def _print_wrapped(
    columns: Sequence[Sequence[str]], widths: Sequence[int], right: Collection[str]
) -> None:
    from rich.table import Table as RichTable
    from rich.text import Text

    table = RichTable(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for (name, *_), width in zip(columns, widths, strict=True):
        table.add_column(name, width=width, justify="right" if name in right else "left")
    # rich cuts off digests only: all other words fit.
    _, *rows = zip(*columns, strict=True)
    for row in rows:
        table.add_row(*(Text(cell, overflow="ellipsis", style=_colour_of(cell)) for cell in row))
    _make_console(sys.stdout).print(table)


def _colour_of(text: str) -> str:
    return _COLOURS.get(text.partition(" ")[0].rstrip(":"), "")


def _colour_verdict(text: str) -> str:
    word, blank, rest = text.partition(" ")
    colour = _colour_of(word)
    return styled(word, colour, sys.stdout) + blank + rest if colour else text


def terminal_width() -> int:
    """Return the terminal's columns: ``COLUMNS``, or those of the original stdout, or 80."""
    # As shutil does, which imports compression modules: they would slow down the start.
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]  # caught below
    except (AttributeError, ValueError, OSError):
        return 80


def _make_console(stream: TextIO) -> Console:
    from rich.console import Console

    return Console(
        file=stream,
        width=terminal_width(),
        color_system=None if os.environ.get("NO_COLOR") else "auto",  # rich's NO_COLOR keeps bold
    )


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print a line ``name  value`` on stdout for each pair whose value is not empty.

    If consecutive pairs have the same name, only the first line shows the name.
    """
    for name, label, value in labelled(fields):
        text = styled(value, "yellow", sys.stdout) if name == "warning" else _colour_verdict(value)
        print_labelled(label, text, wrap=name not in _COPIED)


def print_labelled(label: str, text: str, *, wrap: bool = True) -> None:
    """Print a label and a text on stdout; on a terminal, the text is wrapped next to the label."""
    if wrap and sys.stdout.isatty():
        from textwrap import fill

        indent = " " * len(COLOUR_CODE.sub("", label))
        text = fill(
            text,
            terminal_width(),
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,  # the terminal breaks them itself, and they can still be copied
            break_on_hyphens=False,
        ).removeprefix(indent)
    sys.stdout.write(f"{label}{text}\n")


def print_next(commands: Iterable[str]) -> None:
    """Print the commands to run next."""
    sys.stdout.write("\nNext:\n")
    for command in commands:
        sys.stdout.write(f"  {command}\n")
