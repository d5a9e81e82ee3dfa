"""Configs written as TOML."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

from enginebay.config.limits import DEPTH
from enginebay.config.places import Table, wrong
from enginebay.config.values import ValueDocument

if TYPE_CHECKING:
    from enginebay.config.limits import Budget
    from enginebay.config.places import Place, Source
    from enginebay.config.templates import Templates

#: Texts in quotes, the longer quotes first. Each matches up to the end where its quote is missing,
#: so that scanning takes linear time for any input.
_STRING = (
    r'"""(?:[^\\]|\\.|\\\Z)*?(?:"""|\Z)'
    r"|'''.*?(?:'''|\Z)"
    r'|"(?:[^"\\\n]|\\.|\\\Z)*+(?:"|\Z|(?=\n))'
    r"|'[^'\n]*+(?:'|\Z|(?=\n))"
)
_TOKEN = re.compile(
    rf"(?P<string>{_STRING})|(?P<comment>\#[^\n]*+)|(?P<sign>[\[\]{{}}=,.\n])"
    r"|(?P<bare>[^\s\[\]{}=,.#\"']++)",
    re.DOTALL,
)
_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def parse(source: Source, templates: Templates, budget: Budget) -> ValueDocument:
    """Parse a ``.toml`` config.

    Raises:
        ConfigError: It is not TOML.
    """
    places = _Keys(templates.text, source).found
    try:
        found = tomllib.loads(templates.outside_texts(_STRING))
    except tomllib.TOMLDecodeError as err:
        match = _POSITION.search(str(err))
        end = templates.text.count("\n") + 1
        line, column = (int(match[1]), int(match[2])) if match and match[1] else (end, 1)
        message = _POSITION.sub("", str(err))
        raise wrong(source.at(line, column), f"this is not TOML: {message}") from err
    except (RecursionError, ValueError) as err:  # nested too deep, or thousands of digits
        raise wrong(source.at(1, 1), f"this TOML cannot be read: {err}") from err
    return ValueDocument(_placed(found, (), places), source, templates, budget)


def _placed(value: Any, path: tuple[Any, ...], places: dict[tuple[Any, ...], Place]) -> Any:
    if len(path) > 2 * DEPTH:  # Python's recursion must not end first
        raise wrong(places.get(path[:1]), f"values are nested more than {DEPTH} deep")
    if isinstance(value, dict):
        items = {key: _placed(item, (*path, key), places) for key, item in value.items()}
        return Table(items, {key: places[*path, key] for key in items if (*path, key) in places})
    if isinstance(value, list):
        return [_placed(item, (*path, index), places) for index, item in enumerate(value)]
    return value


class _Keys:
    """Where each key of a TOML text stands. What is not TOML is skipped: the parser will say so.

    Attributes:
        found: The place by the path of keys and indices.
    """

    def __init__(self, text: str, source: Source) -> None:
        self.found: dict[tuple[Any, ...], Place] = {}
        self._source = source
        self._tokens = [token for token in _TOKEN.finditer(text) if token.lastgroup != "comment"]
        self._at = 0
        self._lengths: dict[tuple[Any, ...], int] = {}  # of arrays of tables
        table: tuple[Any, ...] = ()
        while self._peek():
            if self._take("["):
                table = self._header()
            elif not self._take("\n"):
                self._pair(table, 0)

    def _peek(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _take(self, token: str) -> bool:
        found = self._peek() == token
        self._at += found
        return found

    def _header(self) -> tuple[Any, ...]:
        """``[a.b]`` or ``[[a.b]]``, after the first bracket."""
        several = self._take("[")
        path = self._key((), several=several)
        while self._peek() not in ("\n", ""):
            self._at += 1
        return path

    def _pair(self, table: tuple[Any, ...], depth: int) -> None:
        """``key = value``."""
        start = self._at
        path = self._key(table)
        if self._take("="):
            self._value(path, depth)
        elif self._at == start:
            self._at += 1

    def _value(self, path: tuple[Any, ...], depth: int) -> None:
        if depth > DEPTH:
            raise wrong(self._place(), f"values are nested more than {DEPTH} deep")
        if self._take("["):
            index = 0
            while self._peek() and not self._take("]"):
                if self._take(","):
                    index += 1
                elif not self._take("\n"):
                    self._value((*path, index), depth + 1)
        elif self._take("{"):
            while self._peek() and not self._take("}"):
                if not self._take(",") and not self._take("\n"):
                    self._pair(path, depth + 1)
        else:
            self._at += 1
            while self._peek() not in ("\n", ",", "]", "}", ""):
                self._at += 1

    def _key(self, table: tuple[Any, ...], *, several: bool | None = None) -> tuple[Any, ...]:
        """Read ``a.b."c d"``, and note where each of its parts stands.

        Args:
            table: What it is in.
            several: Whether it is the header of an array of tables; None for any other key.
        """
        path, parts = table, 0
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            if token.lastgroup in ("bare", "string"):
                parts += 1
                if parts > DEPTH:
                    raise wrong(self._place(), f"a key has more than {DEPTH} parts")
                path = (*self._newest(path), _name(token))
                self.found.setdefault(path, self._place())
            elif token[0] != ".":
                break
            self._at += 1
        if several:
            self._lengths[path] = self._lengths.get(path, 0) + 1
        return path if several is None else self._newest(path)

    def _newest(self, path: tuple[Any, ...]) -> tuple[Any, ...]:
        """The last table of an array of tables; the path itself where it leads to none."""
        return (*path, self._lengths[path] - 1) if path in self._lengths else path

    def _place(self) -> Place:
        return self._source.at_offset(self._tokens[min(self._at, len(self._tokens) - 1)].start())


def _name(token: re.Match[str]) -> str:
    if token.lastgroup == "bare":
        return token[0]
    try:
        name: str = tomllib.loads(f"k={token[0]}")["k"]
    except ValueError:  # the parser will say what is wrong with it
        return token[0]
    return name
