"""Printing for all commands: JSON, tables and fields on stdout, messages on stderr.

What goes to a file or a pipe is plain, complete, and one line a row, for grep. On a terminal rows
are wrapped at words, and rich is imported only there: start-up has a budget.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from enginebay.display import (
    COLOUR_CODE,
    SCHEMA,
    Fields,
    Table,
    labelled,
    printable,
    table_lines,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from typing import TextIO

    from rich.console import Console

    from enginebay.display import Block

#: The message of the commands about backends where there is none.
NONE_INSTALLED = "No backend is installed. hint: pip install 'enginebay-onnxruntime[cpu]'"
#: The fields that are copied into a shell, where a line break of ours would cut them in two.
_COPIED = ("command",)
#: As many characters of a digest as distinguish it from others.
_DIGEST_WIDTH = 12
#: What a text begins with that is coloured.
_COLOURS = {
    "verified": "green",
    "unverified": "yellow",
    "random": "yellow",
    **dict.fromkeys(("mismatched", "crashed", "failed"), "red"),
}


@contextmanager
def stdout_on_stderr() -> Iterator[None]:
    """Send to stderr whatever a model's code prints meanwhile: stdout is for the command's data."""
    from contextlib import redirect_stdout

    with redirect_stdout(sys.stderr):
        yield


def print_json(document: dict[str, Any]) -> None:
    """Print one JSON document on stdout."""
    import json

    sys.stdout.write(json.dumps({"schema": SCHEMA, **document}, indent=2) + "\n")


def print_message(text: str) -> None:
    """Print a line on stderr."""
    sys.stderr.write(text + "\n")


def styled(text: str, style: str, stream: TextIO) -> str:
    """Return the text in a style of rich's where ``stream`` shows one.

    A terminal does, or anything with FORCE_COLOR set; nothing does with NO_COLOR set.
    """
    if not (stream.isatty() or os.environ.get("FORCE_COLOR")):
        return text
    from rich.style import Style

    return Style.parse(style).render(text) if _console(stream).color_system else text


def print_blocks(blocks: Iterable[Block]) -> None:
    """Print a result's blocks on stdout, on a terminal in colours and wrapped at words."""
    for block in blocks:
        if isinstance(block, Table):
            print_table(block.header, block.rows, right=block.right)
        elif isinstance(block, Fields):
            print_fields(block.pairs)
        else:
            print_labelled("", _coloured(printable(block)))


def print_table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Collection[str] = (),
    digests: Collection[str] = (),
) -> None:
    """Print aligned columns on stdout.

    On a terminal cells are wrapped at words. Where even the words are too wide to stand side by
    side, each row is printed as fields below one another.

    Args:
        header: The columns' names.
        rows: One text for each column.
        right: The columns that hold numbers, which end at the same place.
        digests: The columns that hold digests, which may lose their end on a narrow terminal.
    """
    lines = [tuple(map(printable, row)) for row in rows]
    columns = list(zip(header, *lines, strict=True))
    if not sys.stdout.isatty():
        first, *others = table_lines(header, lines, right)
        sys.stdout.write("\n".join([styled(first, "bold", sys.stdout), *others, ""]))
    elif widths := _widths_that_fit(columns, right, digests):
        _print_wrapped(columns, widths, right)
    else:
        for line in lines:
            print_fields(zip(map(str.lower, header), line, strict=True))
            sys.stdout.write("\n")


def _widths_that_fit(
    columns: Sequence[Sequence[str]], right: Collection[str], digests: Collection[str]
) -> list[int] | None:
    """Return the columns' widths on this terminal; None where the longest words do not fit.

    A number and its unit are one word.
    """
    from rich.cells import cell_len

    def least_of(header: str, *cells: str) -> int:
        if header in digests:
            return _DIGEST_WIDTH
        whole = cells if header in right else " ".join(cells).split()
        return max(map(cell_len, (*header.split(), *whole)), default=0)

    widths = [max(map(cell_len, column)) for column in columns]
    least = [least_of(*column) for column in columns]
    # One more than the columns and what is between them: rich would cut a column otherwise.
    excess = sum(widths) + 2 * (len(widths) - 1) + 1 - _columns()
    # What can become narrowest gives first: prose before names.
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
    _, *rows = zip(*columns, strict=True)
    for row in rows:
        table.add_row(*(Text(cell, overflow="ellipsis", style=_colour(cell)) for cell in row))
    _console(sys.stdout).print(table)


def _colour(text: str) -> str:
    """The colour of a text that begins with a verdict or the like; empty for others."""
    return _COLOURS.get(text.partition(" ")[0].rstrip(":"), "")


def _coloured(text: str) -> str:
    """Colour the first word where it has a colour."""
    word, blank, rest = text.partition(" ")
    colour = _colour(word)
    return styled(word, colour, sys.stdout) + blank + rest if colour else text


def _columns() -> int:
    """The terminal's width, in characters."""
    from shutil import get_terminal_size  # with compressions that a start does not need

    return get_terminal_size().columns


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    return Console(
        file=stream,
        width=_columns(),
        color_system=None if os.environ.get("NO_COLOR") else "auto",  # rich alone keeps bold
    )


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print ``name  value`` lines on stdout, the empty ones left out, a name only once in a row."""
    for name, label, value in labelled(fields):
        text = styled(value, "yellow", sys.stdout) if name == "warning" else _coloured(value)
        print_labelled(label, text, wrap=name not in _COPIED)


def print_labelled(label: str, text: str, *, wrap: bool = True) -> None:
    """Print a label and a text on stdout, on a terminal wrapped at words beside the label."""
    if wrap and sys.stdout.isatty():
        from textwrap import fill

        indent = " " * len(COLOUR_CODE.sub("", label))
        text = fill(
            text,
            _columns(),
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,  # the terminal breaks them, and copies them whole
            break_on_hyphens=False,
        ).removeprefix(indent)
    sys.stdout.write(f"{label}{text}\n")


def print_next(commands: Iterable[str]) -> None:
    """Print which commands come next."""
    sys.stdout.write("\nNext:\n")
    for command in commands:
        sys.stdout.write(f"  {command}\n")
