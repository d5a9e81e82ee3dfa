"""A result and the parts that it is shown as: alike as text, as HTML and as plain data."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from enginebay.display.html import html_fields, html_line, html_table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

#: The version of every JSON document; it grows when a key is removed or changes its meaning.
SCHEMA = 1
COLOUR_CODE = re.compile(r"\x1b\[[\d;]*m")


class Table(NamedTuple):
    """Columns below their names.

    Attributes:
        header: The columns' names.
        rows: One text for each column.
        right: The columns that hold numbers, which end at the same place.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Collection[str] = ()


class Fields(NamedTuple):
    """A value beside each name, and nothing where the value is empty.

    Attributes:
        pairs: Names and values.
    """

    pairs: Iterable[tuple[str, str]]


#: A part of what is shown: a line, a table, or names with values.
Block: TypeAlias = str | Table | Fields


class Result:
    """What a function found: printed as its command prints it, and as HTML in a notebook."""

    __slots__ = ()

    def blocks(self) -> Iterator[Block]:
        """The lines, tables and fields that it is shown as."""
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n".join(line for block in self.blocks() for line in _lines(block))

    def _repr_html_(self) -> str:
        return "".join(map(_html, self.blocks()))

    def to_dict(self) -> dict[str, Any]:
        """The document that the command prints with ``--json``, but for what only it knows."""
        return document(self)


def document(found: Any) -> dict[str, Any]:
    """Return records as plain JSON values, with the version of the documents."""
    import msgspec

    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found))
    return {"schema": SCHEMA, **plain}


def _lines(block: Block) -> Iterable[str]:
    if isinstance(block, Table):
        return table_lines(*block)
    if isinstance(block, Fields):
        return (label + value for _, label, value in labelled(block.pairs))
    return [printable(block)]


def _html(block: Block) -> str:
    if isinstance(block, Table):
        names, right = ([name.lower() for name in names] for names in (block.header, block.right))
        return html_table(names, block.rows, right=right)
    return html_fields("", block.pairs) if isinstance(block, Fields) else html_line(block)


def table_lines(
    header: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[str] = ()
) -> list[str]:
    """Return a table's lines, its columns aligned."""
    padded = []
    for column in zip(header, *(map(printable, row) for row in rows), strict=True):
        pad = str.rjust if column[0] in right else str.ljust
        padded.append([pad(cell, max(map(len, column))) for cell in column])
    return ["  ".join(line).rstrip() for line in zip(*padded, strict=True)]


def labelled(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    """Yield name, label and value of those with a value; equal names in a row have one label."""
    shown = [(name, value) for name, value in pairs if value]
    width = max((len(name) for name, _ in shown), default=0)
    before = ""
    for name, value in shown:
        yield name, f"{'' if name == before else name:<{width}}  ", printable(value)
        before = name


def printable(text: str) -> str:
    """Escape what moves the cursor or breaks a row: a text may come from a file. Colours pass."""
    return text if COLOUR_CODE.sub("", text).isprintable() else repr(text)[1:-1]
