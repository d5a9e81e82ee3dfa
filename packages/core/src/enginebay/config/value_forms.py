"""Configs written as TOML, JSON or YAML: each is read by its library."""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

from enginebay.config.limits import DEPTH
from enginebay.config.places import Place, Table, error_at
from enginebay.config.templates import TEMPLATE
from enginebay.errors import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from enginebay.config.limits import Budget

# tomllib takes quadratic memory for a key such as a.a.a…: gigabytes for 100 kB.
_KEY_PART = r"(?:[\w-]++|\"[^\"\n]*+\"|'[^'\n]*+')[ \t]*+\.[ \t]*+"
_LONG_KEY = re.compile(rf"(?<![\w-])(?:{_KEY_PART}){{{DEPTH}}}")


class ValueConfig:
    """A parsed TOML, JSON or YAML config.

    Args:
        text: The file's text.
        path: The file, whose suffix names the format.
        budget: The work that the config may cause.

    Attributes:
        variables: Always empty: no value of these formats can use another one.

    Raises:
        ConfigError: It is not of its format, no table, or too large.
        MissingDependencyError: It is YAML, and no parser is installed.
    """

    variables: frozenset[str] = frozenset()

    def __init__(self, text: str, path: Path, budget: Budget) -> None:
        name, parse = _FORMATS[path.suffix]
        place = Place(str(path))
        try:
            found = parse(text)
        except ImportError as err:
            raise MissingDependencyError(
                f"'{place}' is {name}, and no parser of it is installed",
                hint="pip install pyyaml, or write the config as .toml, .json or .py",
            ) from err
        except RecursionError as err:
            raise error_at(place, f"values are nested more than {DEPTH} deep") from err
        except ValueError as err:  # the library's own error, or an integer of 5,000 digits
            hint = "templates are for .py configs only" if TEMPLATE.search(text) else None
            raise error_at(place, f"this {name} cannot be read: {err}", hint=hint) from err
        if not isinstance(found, dict):
            kind = type(found).__name__
            raise error_at(place, f"a config holds keys and values, found {kind}")
        self._table: Table = _with_places(found, place, budget)

    def bases(self) -> tuple[Any, Place | None]:
        """The value of ``_base_`` and its place; None if there is none."""
        return self._table.pop("_base_", None), self._table.places.pop("_base_", None)

    def contents(self, base: Table) -> Table:  # noqa: ARG002  # only .py configs refer to it
        """The values of the file itself."""
        return self._table


def _with_places(value: Any, place: Place, budget: Budget, depth: int = 0) -> Any:
    """The value with a place for every key.

    Raises:
        ConfigError: It holds something that a config may not hold, or too much.
    """
    try:
        budget.check(value, depth)
    except ValueError as err:
        raise error_at(place, str(err)) from err
    if isinstance(value, str) and (template := TEMPLATE.search(value)):
        raise error_at(place, f"the template {template[0]} is for .py configs only")

    def item_at(key: Any, item: Any) -> Any:
        return _with_places(item, place.inside(key), budget, depth + 1)

    if isinstance(value, dict):
        items = {key: item_at(key, item) for key, item in value.items()}
        return Table(items, {key: place.inside(key) for key in items})
    if isinstance(value, list | tuple):  # YAML has pairs
        return [item_at(index, item) for index, item in enumerate(value)]
    return value


def _parse_toml(text: str) -> Any:
    if _LONG_KEY.search(text):
        raise ValueError(f"a key has more than {DEPTH} parts")
    return tomllib.loads(text)


def _parse_json(text: str) -> Any:
    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise ValueError(f"the key {key!r:.80} is given twice")
            found[key] = value
        return found

    def constant(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    return json.loads(text, object_pairs_hook=table, parse_constant=constant)


def _parse_yaml(text: str) -> Any:
    from enginebay.config.yaml_loader import parse_yaml

    return parse_yaml(text)


_FORMATS: dict[str, tuple[str, Callable[[str], Any]]] = {
    ".toml": ("TOML", _parse_toml),
    ".json": ("JSON", _parse_json),
    ".yaml": ("YAML", _parse_yaml),
    ".yml": ("YAML", _parse_yaml),
}
