"""Configs written as TOML, JSON or YAML."""

from __future__ import annotations

import json
import re
import tomllib
from typing import TYPE_CHECKING, Any

from enginebay.config.limits import MAX_DEPTH
from enginebay.config.locations import LocatedDict, Location, error_at
from enginebay.config.templates import TEMPLATE
from enginebay.errors import MissingDependencyError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from enginebay.config.limits import Budget

# tomllib's memory is quadratic in the parts of a key such as a.a.a…: gigabytes for 100 kB.
_KEY_PART = r"(?:[\w-]++|\"[^\"\n]*+\"|'[^'\n]*+')[ \t]*+\.[ \t]*+"
_LONG_KEY = re.compile(rf"(?<![\w-])(?:{_KEY_PART}){{{MAX_DEPTH}}}")


class ValueConfig:
    """A parsed TOML, JSON or YAML config.

    Args:
        text: The file's text.
        path: The path of the file; the suffix selects the format.
        budget: The limits on the size of the config.

    Attributes:
        variables: Always empty: these formats have no variables.

    Raises:
        ConfigError: The text is not valid in its format, is not a table, or exceeds a limit.
        MissingDependencyError: The file is YAML, and no YAML parser is installed.
    """

    variables: frozenset[str] = frozenset()

    def __init__(self, text: str, path: Path, budget: Budget) -> None:
        name, parse = _FORMATS[path.suffix]
        location = Location(str(path))
        try:
            content = parse(text)
        except ImportError as err:
            raise MissingDependencyError(
                f"'{location}' requires a parser of {name}, which is not installed",
                hint="pip install pyyaml, or write the config as .toml, .json or .py",
            ) from err
        except RecursionError as err:
            raise error_at(
                location, f"values are nested more than {MAX_DEPTH} levels deep"
            ) from err
        except ValueError as err:  # the parser's error, or int()'s about 5,000 digits
            hint = "only .py configs can use templates" if TEMPLATE.search(text) else None
            raise error_at(location, f"invalid {name}: {err}", hint=hint) from err
        if not isinstance(content, dict):
            kind = type(content).__name__
            raise error_at(location, f"expected keys and values, found {kind}")
        self._table: LocatedDict = _add_locations(content, location, budget)

    def read_bases(self) -> tuple[object, Location | None]:
        """Return the value and the location of ``_base_``; both are None without ``_base_``."""
        return self._table.pop("_base_", None), self._table.locations.pop("_base_", None)

    def read_contents(self, base: LocatedDict) -> LocatedDict:  # noqa: ARG002  # only .py configs refer to it
        """Return the values of the file, by name; ``base`` is not used."""
        return self._table


def _add_locations(value: object, location: Location, budget: Budget, depth: int = 0) -> Any:
    """Return a copy of a value, in which every key of a dict has a location.

    Raises:
        ConfigError: A value is too large or nested too deep, or a text contains a template.
    """
    try:
        budget.check_value(value, depth)
    except ValueError as err:
        raise error_at(location, str(err)) from err
    if isinstance(value, str) and (template := TEMPLATE.search(value)):
        raise error_at(location, f"only .py configs can use the template {template[0]}")

    def located_item(key: object, item: object) -> object:
        return _add_locations(item, location.at_key(key), budget, depth + 1)

    if isinstance(value, dict):
        items = {key: located_item(key, item) for key, item in value.items()}
        return LocatedDict(items, {key: location.at_key(key) for key in items})
    if isinstance(value, list | tuple):  # YAML has tuples: !!pairs
        return [located_item(index, item) for index, item in enumerate(value)]
    return value


def _parse_toml(text: str) -> object:
    if _LONG_KEY.search(text):
        raise ValueError(f"a dotted key has more than {MAX_DEPTH} parts")
    return tomllib.loads(text)


def _parse_json(text: str) -> object:
    def build_dict(pairs: list[tuple[str, object]]) -> dict[str, object]:
        items: dict[str, object] = {}
        for key, value in pairs:
            # json itself keeps the last of duplicate keys without a word.
            if key in items:
                raise ValueError(f"duplicate key {key!r:.80}")
            items[key] = value
        return items

    def refuse_constant(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    return json.loads(text, object_pairs_hook=build_dict, parse_constant=refuse_constant)


def _parse_yaml(text: str) -> object:
    from enginebay.config.yaml_loader import parse_yaml

    return parse_yaml(text)


_FORMATS: dict[str, tuple[str, Callable[[str], object]]] = {
    ".toml": ("TOML", _parse_toml),
    ".json": ("JSON", _parse_json),
    ".yaml": ("YAML", _parse_yaml),
    ".yml": ("YAML", _parse_yaml),
}
