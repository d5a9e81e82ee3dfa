"""Parsing of a comparator's argument."""

from __future__ import annotations

from enginebay.errors import UsageError


def parse_positive_number(name: str, argument: str) -> int:
    """Parse a comparator's argument as a positive integer.

    Raises:
        UsageError: The argument is not a positive integer.
    """
    if not (argument.isascii() and argument.isdecimal() and int(argument)):
        raise UsageError(f"invalid '{argument}' in {name}:{argument}: expected a positive integer")
    return int(argument)
