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


def overlap(name: str, argument: str) -> float:
    """The argument of a comparator that wants boxes to overlap.

    Raises:
        UsageError: It is no number above 0 and up to 1.
    """
    try:
        value = float(argument)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:  # NaN is not
        raise UsageError(
            f"'{argument}' in {name}:{argument} is no intersection over union: wanted a number "
            "above 0 and up to 1"
        )
    return value
