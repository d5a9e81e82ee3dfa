"""Reads what a Google-style docstring says about each field.

Written here rather than taken from a library: the part that is needed is one section, and the
words in it must come out exactly as they were put in.
"""

from __future__ import annotations

import re
from inspect import cleandoc

_SECTION = re.compile(r"(?:Args|Arguments|Attributes):\s*")
_FIELD = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*(?:\(.*?\))?\s*:(?:\s+(?P<help>.*))?")


def read_fields(docstring: str) -> dict[str, str]:
    """The help of every field in the ``Args:`` and ``Attributes:`` sections, in their order.

    Types in parentheses are left out; help over several lines is joined with single blanks.

    Example:
        >>> read_fields('''What it is.
        ...
        ... Args:
        ...     threads (int): How many threads
        ...         to use.
        ... ''')
        {'threads': 'How many threads to use.'}
    """
    fields: dict[str, list[str]] = {}
    help_lines: list[str] = []
    for line in _section_lines(docstring):
        match = _FIELD.fullmatch(line)
        if match:
            help_lines = fields.setdefault(match["name"], [])
            line = match["help"] or ""
        help_lines.append(line.strip())
    return {name: _join(lines) for name, lines in fields.items()}


def _section_lines(docstring: str) -> list[str]:
    """The lines of the sections, shifted so that a field starts in the first column."""
    lines: list[str] = []
    inside, indent = False, 0
    for line in cleandoc(docstring).splitlines():
        depth = len(line) - len(line.lstrip())
        if line and not depth:
            inside, indent = bool(_SECTION.fullmatch(line)), 0
        elif line and inside:
            indent = indent or depth
            lines.append(line[min(indent, depth) :])
    return lines


def _join(lines: list[str]) -> str:
    # Double backquotes are for the documentation; a terminal shows them as noise.
    return " ".join(" ".join(lines).replace("``", "").split())
