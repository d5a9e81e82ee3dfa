"""Base class of results, which are shown as text, HTML or JSON."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

#: The version of every JSON document; incremented when a key is removed or changes its meaning.
SCHEMA = 1
COLOUR_CODE = re.compile(r"\x1b\[[\d;]*m")


class Table(NamedTuple):
    """A table with a header.

    Attributes:
        header: The columns' names.
        rows: The rows, each with one text for each column.
        right: The names of the columns to align right, such as columns of numbers.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Collection[str] = ()


class Fields(NamedTuple):
    """Names with values, one pair on each line.

    Attributes:
        pairs: Names and values; a pair with an empty value is not shown.
    """

    pairs: Iterable[tuple[str, str]]


#: A part of a shown result: a line, a table, or names with values.
Block: TypeAlias = str | Table | Fields


class Result:
    """Base class of results; ``str()`` returns what a command prints, and a notebook shows HTML."""

    __slots__ = ()

    def blocks(self) -> Iterator[Block]:
        """Yield the lines, tables and fields to show."""
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n".join(line for block in self.blocks() for line in _format_lines(block))

    def _repr_html_(self) -> str:
        return "".join(map(_format_html, self.blocks()))

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON values, as the command prints it with ``--json``."""
        return document(self)


def document(record: object) -> dict[str, Any]:
    """Return a result or a dict as plain JSON values, with a key for the schema version."""
    import msgspec

    # Through JSON, which turns tuples into lists and keys into texts.
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(record))
    return {"schema": SCHEMA, **plain}


def _format_lines(block: Block) -> Iterable[str]:
    if isinstance(block, Table):
        return table_lines(*block)
    if isinstance(block, Fields):
        return (label + value for _, label, value in labelled(block.pairs))
    return [printable(block)]


def _format_html(block: Block) -> str:
    from enginebay.display.html import html_fields, html_line, html_table  # for notebooks alone

    if isinstance(block, Table):
        # Headers in capitals are for the terminal; HTML shows headers in bold.
        names, right = ([name.lower() for name in names] for names in (block.header, block.right))
        return html_table(names, block.rows, right=right)
    return html_fields("", block.pairs) if isinstance(block, Fields) else html_line(block)


def table_lines(
    header: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[str] = ()
) -> list[str]:
    """Return the lines of a table, with aligned columns."""
    padded = []
    for column in zip(header, *(map(printable, row) for row in rows), strict=True):
        pad = str.rjust if column[0] in right else str.ljust
        padded.append([pad(cell, max(map(len, column))) for cell in column])
    return ["  ".join(line).rstrip() for line in zip(*padded, strict=True)]


def labelled(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    """Yield the name, a label and the value of each pair whose value is not empty.

    The label is the name, padded with spaces to the width of the longest name. Of consecutive
    pairs with the same name, all but the first have a label of spaces.
    """
    shown = [(name, value) for name, value in pairs if value]
    width = max((len(name) for name, _ in shown), default=0)
    previous = ""
    for name, value in shown:
        yield name, f"{'' if name == previous else name:<{width}}  ", printable(value)
        previous = name


def printable(text: str) -> str:
    """Return a text with control characters escaped, except colour codes."""
    # A text from a file could otherwise move the cursor or break a table's row.
    return text if COLOUR_CODE.sub("", text).isprintable() else repr(text)[1:-1]
