"""Places in config files, for error messages."""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

from enginebay.errors import ConfigError


class Place(NamedTuple):
    """A place in a config file: a character of a ``.py`` file, a key of any other.

    Attributes:
        path: The file, absolute.
        line: From 1; 0 in a file whose values have no lines.
        column: From 1.
        keys: The keys and indices that lead from the root to the place, without a line.

    Example:
        >>> str(Place("a.py", 2, 5)), str(Place("a.toml").inside("backend_config").inside("type"))
        ('a.py:2:5', 'a.toml: backend_config.type')
    """

    path: str
    line: int = 0
    column: int = 0
    keys: tuple[Any, ...] = ()

    @property
    def file(self) -> str:
        """The file, as messages show it."""
        return display_path(self.path)

    def inside(self, key: Any) -> Place:
        """The place of a key or an index of the value at this place."""
        return self._replace(keys=(*self.keys, key))

    def __str__(self) -> str:
        if self.line:
            return f"{self.file}:{self.line}:{self.column}"
        return f"{self.file}: {'.'.join(map(_key, self.keys))}" if self.keys else self.file


class Table(dict[Any, Any]):
    """A dict that knows the places of its keys.

    Attributes:
        places: A place for each key that came from a file.
        variables: Keys of a whole config that its files use themselves: they are no sections.
    """

    __slots__ = ("places", "variables")

    def __init__(self, items: Any = (), places: dict[Any, Place] | None = None) -> None:
        super().__init__(items)
        self.places: dict[Any, Place] = places or {}
        self.variables: frozenset[str] = frozenset()

    def find(self, path: tuple[Any, ...]) -> Place | None:
        """The place that a path of keys and indices leads to, or the nearest above that is there.

        Example:
            >>> here = Place("a.py", 1, 1)
            >>> str(Table({"a": [1, 2]}, {"a": here}).find(("a", 1)))
            'a.py:1:1'
        """
        found: Place | None = None
        value: Any = self
        for key in path:
            if isinstance(value, Table):
                found = value.places.get(key, found)
            try:
                inner = value[key]
            except (KeyError, IndexError, TypeError):
                break
            if isinstance(value, list) and found is not None and not found.line:
                found = found.inside(key)
            value = inner
        return found


def display_path(path: str) -> str:
    """The path as a user would type it: relative if it is below the current folder."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def error_at(place: Place | None, message: str, *, hint: str | None = None) -> ConfigError:
    """The error about something at a place."""
    return ConfigError(f"{place}: {message}" if place else message, hint=hint)


def _key(key: Any) -> str:
    """The key as it is, or in quotes if it would not be one line of plain text with dots."""
    text = str(key)
    return text if re.fullmatch(r"[^\s.\ud800-\udfff]+", text) else f"{text!r:.80}"
