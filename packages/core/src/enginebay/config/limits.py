"""Limits on the size of a config, so that no config exhausts memory or computing time.

The limits are a hundred times the needs of the largest known deploy configs. They apply to a config
together with the files that it inherits from.
"""

from __future__ import annotations

from typing import Literal

from enginebay.config.locations import LocatedDict, Location, error_at

LIMITS = {
    "files": 100,
    "values": 200_000,  # read, created or copied
    "characters": 4 * 1024 * 1024,  # in texts that are read or joined
}
MAX_FILE_BYTES = 256 * 1024
MAX_CHAIN = 20  # files, each the base of the one before it
MAX_DEPTH = 50  # of values inside values
MAX_INT_BITS = 1024
_ALLOWED = (list, tuple, range, float, type(None))  # the other types are below


class Budget:
    """The numbers of files, values and characters that may still be read for one config."""

    def __init__(self) -> None:
        self._left = dict(LIMITS)

    def spend(self, kind: Literal["files", "values", "characters"], count: int = 1) -> None:
        """Subtract ``count`` from the remaining number of files, values or characters.

        Raises:
            ValueError: The limit is exceeded.
        """
        self._left[kind] -= count
        if self._left[kind] < 0:
            raise ValueError(f"the config has more than {LIMITS[kind]} {kind}")

    def check_value(self, value: object, depth: int = 0) -> None:
        """Check a value and, for a dict, the keys; nested values are not checked.

        Raises:
            ValueError: The value is too large, nested too deep, or of a type that configs cannot
                contain.
        """
        # A range becomes a list in the result.
        self.spend("values", len(value) if isinstance(value, range) else 1)
        if depth > MAX_DEPTH:
            raise ValueError(f"values are nested more than {MAX_DEPTH} levels deep")
        if isinstance(value, str):
            self.spend("characters", len(value))
            # Half of a surrogate pair cannot be written as UTF-8.
            if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
                raise ValueError("a text contains half of a surrogate pair")
        elif isinstance(value, int):
            if value.bit_length() > MAX_INT_BITS:
                raise ValueError(f"an integer has more than {MAX_INT_BITS} bits")
        elif isinstance(value, dict):
            for key in value:
                self.check_value(key)
        elif not isinstance(value, _ALLOWED):
            kind = type(value).__name__
            raise ValueError(f"a config cannot contain a {kind}")  # noqa: TRY004  # the caller adds the location

    def check_all(self, value: object, location: Location, depth: int = 0) -> None:
        """Check a value and all nested values; a value that occurs twice counts twice.

        Raises:
            ConfigError: A value is too large or nested too deep, or a limit is exceeded.
        """
        try:
            self.check_value(value, depth)
        except ValueError as err:
            raise error_at(location, str(err)) from err
        if isinstance(value, LocatedDict):
            for key, item in value.items():
                self.check_all(item, value.locations.get(key, location), depth + 1)
        elif isinstance(value, (list, tuple)):  # faster than a union
            for item in value:
                self.check_all(item, location, depth + 1)
