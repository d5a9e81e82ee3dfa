"""A comparator's argument as a number."""

from __future__ import annotations

from enginebay.errors import UsageError


def positive_number(name: str, argument: str) -> int:
    """The argument of a comparator that counts.

    Raises:
        UsageError: It is no whole number above 0.
    """
    if not (argument.isascii() and argument.isdecimal() and int(argument)):
        raise UsageError(f"'{argument}' in {name}:{argument} is no whole number above 0")
    return int(argument)
