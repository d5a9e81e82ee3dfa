"""Formatting of results: numbers with their units, tables, and HTML for notebooks."""

from __future__ import annotations

from enginebay.display.html import html_fields, html_table
from enginebay.display.quantities import (
    human_error,
    human_number,
    human_seconds,
    human_shape,
    human_size,
    join_names,
    short_path,
)
from enginebay.display.result import (
    COLOUR_CODE,
    SCHEMA,
    Block,
    Fields,
    Result,
    Table,
    document,
    labelled,
    printable,
    table_lines,
)

__all__ = [
    "COLOUR_CODE",
    "SCHEMA",
    "Block",
    "Fields",
    "Result",
    "Table",
    "document",
    "html_fields",
    "html_table",
    "human_error",
    "human_number",
    "human_seconds",
    "human_shape",
    "human_size",
    "join_names",
    "labelled",
    "printable",
    "short_path",
    "table_lines",
]
