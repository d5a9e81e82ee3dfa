"""Where things stand in config files."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

from enginebay.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


class Place(NamedTuple):
    """A character of a file.

    Attributes:
        path: The file, absolute.
        line: From 1.
        column: From 1.
    """

    path: str
    line: int
    column: int

    @property
    def file(self) -> str:
        """The file as messages show it."""
        return shown(self.path)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Table(dict[Any, Any]):
    """A dict that knows where its keys stand.

    Attributes:
        places: A place for each key that came from a file.
        helpers: Keys of a whole config that its files use as variables: they are no sections.
    """

    __slots__ = ("helpers", "places")

    def __init__(self, items: Any = (), places: dict[Any, Place] | None = None) -> None:
        super().__init__(items)
        self.places: dict[Any, Place] = places or {}
        self.helpers: frozenset[str] = frozenset()

    def find(self, path: tuple[Any, ...]) -> Place | None:
        """The place of the key that a path of keys and indices leads to, or of the nearest above.

        Example:
            >>> here = Place("a.py", 1, 1)
            >>> Table({"a": [1, 2]}, {"a": here}).find(("a", 1))
            Place(path='a.py', line=1, column=1)
        """
        found: Place | None = None
        value: Any = self
        for key in path:
            if isinstance(value, Table):
                found = value.places.get(key, found)
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                break
        return found


class Source:
    """A config file's text.

    Attributes:
        path: The file, absolute.
        where: The same as text.
        text: What it holds.
    """

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.where = str(path)
        self.text = text
        self._starts: list[int] | None = None  # of the lines; most configs need no place

    def at(self, line: int, column: int) -> Place:
        """The place with a line and a column that both count from 1."""
        return Place(self.where, line, column)

    def at_offset(self, offset: int) -> Place:
        """The place of a character that is counted from the start of the text."""
        if self._starts is None:
            self._starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        line = bisect_right(self._starts, offset)
        return Place(self.where, line, offset - self._starts[line - 1] + 1)


def shown(path: str | Path) -> str:
    """A path as people would type it here: relative where it lies below the current folder."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def wrong(place: Place | None, message: str, *, hint: str | None = None) -> ConfigError:
    """The error about something at a place."""
    return ConfigError(f"{place}: {message}" if place else message, hint=hint)
