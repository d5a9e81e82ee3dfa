"""How results are shown: figures with their units, and tables for a notebook."""

from __future__ import annotations

from enginebay.display.html import html_fields, html_table
from enginebay.display.quantities import human_error, human_number, human_seconds, human_size

__all__ = [
    "html_fields",
    "html_table",
    "human_error",
    "human_number",
    "human_seconds",
    "human_size",
]
