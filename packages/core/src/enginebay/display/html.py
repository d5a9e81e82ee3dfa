"""HTML of results for notebooks: fields and tables, for light and for dark themes."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

# No colour except the notebook's own, so that it can be read in every theme.
_TABLE = "border-collapse: collapse; margin: 0.3em 0; color: inherit; background: none"
_CELL = "padding: 0.1em 0.8em 0.1em 0; vertical-align: top; border: 0; text-align: {align}"
_LABEL = _CELL.format(align="left") + "; opacity: 0.7; font-weight: normal; white-space: nowrap"


def html_fields(title: str, pairs: Iterable[tuple[str, str]]) -> str:
    """Return HTML with a title, and a row for each (name, value) pair; skip empty values.

    Example:
        >>> "1 &lt; 2" in html_fields("Verification", [("note", "1 < 2")])
        True
    """
    cell = _CELL.format(align="left")
    rows = "".join(
        f'<tr><th style="{_LABEL}">{escape(name)}</th><td style="{cell}">{escape(value)}</td></tr>'
        for name, value in pairs
        if value
    )
    table = f'<table style="{_TABLE}"><tbody>{rows}</tbody></table>' if rows else ""
    return html_line(title) + table


def html_line(text: str) -> str:
    """Return HTML with a line in bold; an empty string for an empty line."""
    return f"<div><b>{escape(text)}</b></div>" if text else ""


def html_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[str] = ()
) -> str:
    """Return an HTML table; an empty string if there are no rows.

    Args:
        header: The columns' names.
        rows: The rows, each with one text for each column.
        right: The names of the columns to align right, such as columns of numbers.
    """
    styles = [_CELL.format(align="right" if name in right else "left") for name in header]
    head = _format_row("th", header, styles)
    body = "".join(_format_row("td", row, styles) for row in rows)
    if not body:
        return ""
    return f'<table style="{_TABLE}"><thead>{head}</thead><tbody>{body}</tbody></table>'


def _format_row(tag: str, texts: Sequence[str], styles: Sequence[str]) -> str:
    cells = "".join(
        f'<{tag} style="{style}">{escape(text)}</{tag}>'
        for text, style in zip(texts, styles, strict=True)
    )
    return f"<tr>{cells}</tr>"
