"""Formatting of results: numbers with their units, tables, and HTML for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.display.html import (
        html_fields as html_fields,
        html_table as html_table,
    )
    from enginebay.display.quantities import (
        human_error as human_error,
        human_number as human_number,
        human_seconds as human_seconds,
        human_shape as human_shape,
        human_size as human_size,
        join_names as join_names,
        list_files as list_files,
        short_path as short_path,
    )
    from enginebay.display.result import (
        COLOUR_CODE as COLOUR_CODE,
        SCHEMA as SCHEMA,
        Block as Block,
        Fields as Fields,
        Result as Result,
        Table as Table,
        document as document,
        labelled as labelled,
        printable as printable,
        table_lines as table_lines,
    )


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "display.html": "html_fields html_table",
        "display.quantities": (
            "human_error human_number human_seconds human_shape human_size join_names list_files "
            "short_path"
        ),
        "display.result": (
            "COLOUR_CODE SCHEMA Block Fields Result Table document labelled printable table_lines"
        ),
    },
)
