"""Limits on the work that one config may cause: its author must not be able to stop the machine.

The figures are a hundred times what the largest deploy configs in use need. They hold for a file
together with everything that it inherits.
"""

from __future__ import annotations

from typing import Any, Literal

from enginebay.config.places import Place, Table, error_at

LIMITS = {
    "files": 100,
    "values": 200_000,  # that are read, made or copied
    "characters": 4 * 1024 * 1024,  # in texts that are read or put together
}
FILE_BYTES = 256 * 1024
INHERITANCE = 20  # files in a row, each the base of the one before
DEPTH = 50  # of values in values
INT_BITS = 1024
_ALLOWED = (list, tuple, range, float, type(None))  # and those with limits of their own


class Budget:
    """The work that is left for one config."""

    def __init__(self) -> None:
        self._left = dict(LIMITS)

    def spend(self, kind: Literal["files", "values", "characters"], count: int = 1) -> None:
        """Account for more work.

        Raises:
            ValueError: It is too much.
        """
        self._left[kind] -= count
        if self._left[kind] < 0:
            raise ValueError(f"the config has more than {LIMITS[kind]} {kind}")

    def check(self, value: Any, depth: int = 0) -> None:
        """Account for a value and its keys, without the values in it.

        Raises:
            ValueError: It is too large, too deep, or of a type that no config may hold.
        """
        self.spend("values", len(value) if isinstance(value, range) else 1)
        if depth > DEPTH:
            raise ValueError(f"values are nested more than {DEPTH} deep")
        if isinstance(value, str):
            self.spend("characters", len(value))
            if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
                raise ValueError("a text holds half of a surrogate pair")
        elif isinstance(value, int):
            if value.bit_length() > INT_BITS:
                raise ValueError(f"an integer has more than {INT_BITS} bits")
        elif isinstance(value, dict):
            for key in value:
                self.check(key)
        elif not isinstance(value, _ALLOWED):
            kind = type(value).__name__
            raise ValueError(f"a config cannot hold a {kind}")  # noqa: TRY004  # the caller adds the place

    def check_all(self, value: Any, place: Place, depth: int = 0) -> None:
        """Account for a value and the values in it, each time that they occur.

        Raises:
            ConfigError: One of them is too large or too deep, or they are too many.
        """
        try:
            self.check(value, depth)
        except ValueError as err:
            raise error_at(place, str(err)) from err
        if isinstance(value, Table):
            for key, item in value.items():
                self.check_all(item, value.places.get(key, place), depth + 1)
        elif isinstance(value, (list, tuple)):  # quicker than a union
            for item in value:
                self.check_all(item, place, depth + 1)
