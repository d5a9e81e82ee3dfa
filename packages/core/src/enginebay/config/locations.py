"""Locations in config files, for error messages."""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

from enginebay.errors import ConfigError


class Location(NamedTuple):
    """A location in a config file: line and column in a ``.py`` file, keys in any other file.

    Attributes:
        path: The absolute path of the file.
        line: The line number, from 1; 0 if the file's parser reports no lines.
        column: The column number, from 1.
        keys: The keys and indices that lead from the top of the config to the value; empty if
            ``line`` is set.

    Example:
        >>> str(Location("a.py", 2, 5)), str(Location("a.toml").at_key("backend_config"))
        ('a.py:2:5', 'a.toml: backend_config')
    """

    path: str
    line: int = 0
    column: int = 0
    keys: tuple[Any, ...] = ()

    @property
    def file(self) -> str:
        """The file's path for messages."""
        return display_path(self.path)

    def at_key(self, key: object) -> Location:
        """Return this location extended by a key or an index."""
        return self._replace(keys=(*self.keys, key))

    def __str__(self) -> str:
        if self.line:
            return f"{self.file}:{self.line}:{self.column}"
        return f"{self.file}: {'.'.join(map(_quote_key, self.keys))}" if self.keys else self.file


class LocatedDict(dict[Any, Any]):
    """A dict with the locations of its keys.

    Attributes:
        locations: A location for each key that was read from a file.
        variables: The top-level keys that a config's files use as variables, not as sections.
    """

    __slots__ = ("locations", "variables")

    def __init__(self, items: Any = (), locations: dict[Any, Location] | None = None) -> None:
        super().__init__(items)
        self.locations: dict[Any, Location] = locations or {}
        self.variables: frozenset[str] = frozenset()

    def find(self, path: tuple[object, ...]) -> Location | None:
        """Return the location of the value at a path of keys.

        If the value has no location, return that of the nearest enclosing value with a location;
        None if there is none.

        Example:
            >>> here = Location("a.py", 1, 1)
            >>> str(LocatedDict({"a": [1, 2]}, {"a": here}).find(("a", 1)))
            'a.py:1:1'
        """
        nearest: Location | None = None
        value: Any = self
        for key in path:
            if isinstance(value, LocatedDict):
                nearest = value.locations.get(key, nearest)
            try:
                inner = value[key]
            except (KeyError, IndexError, TypeError):
                break
            # A location without a line must name the entry of a list.
            if isinstance(value, list) and nearest is not None and not nearest.line:
                nearest = nearest.at_key(key)
            value = inner
        return nearest


def display_path(path: str) -> str:
    """Return a path for messages: relative if the file is below the current folder."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def error_at(location: Location | None, message: str, *, hint: str | None = None) -> ConfigError:
    """Return an error whose message starts with a location."""
    return ConfigError(f"{location}: {message}" if location else message, hint=hint)


def _quote_key(key: object) -> str:
    """Return a key as text, in quotes if it contains blanks, dots or surrogates."""
    text = str(key)
    return text if re.fullmatch(r"[^\s.\ud800-\udfff]+", text) else f"{text!r:.80}"
