"""What the formats that only hold values have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginebay.config.places import Table, wrong

if TYPE_CHECKING:
    from enginebay.config.limits import Budget
    from enginebay.config.places import Place, Source
    from enginebay.config.templates import Templates


class ValueDocument:
    """A parsed TOML, JSON or YAML config.

    Attributes:
        helpers: Names of the bases that the file refers to.

    Raises:
        ConfigError: Its root is not a table, or it holds too much.
    """

    def __init__(self, found: Any, source: Source, templates: Templates, budget: Budget) -> None:
        start = source.at(1, 1)
        if not isinstance(found, Table):
            raise wrong(start, f"a config holds keys and values, found {type(found).__name__}")
        budget.value(found, start)
        self._found = found
        self._templates = templates
        self._budget = budget
        self._start = start
        self.helpers: set[str] = set()

    def bases(self) -> tuple[Any, Place | None]:
        """The value of ``_base_`` and its place; None where there is none."""
        place = self._found.places.get("_base_")
        return self._filled(self._found.get("_base_"), place), place

    def contents(self, base: Table) -> Table:
        """The values, with their templates filled in."""
        self._templates.base = base
        filled: Table = self._filled(self._found, self._start)
        filled.pop("_base_", None)
        self._budget.value(filled, self._start)
        self.helpers |= self._templates.used
        return filled

    def _filled(self, value: Any, place: Place | None) -> Any:
        if isinstance(value, str):
            return self._templates.fill(value, place)
        if isinstance(value, list):
            return [self._filled(item, place) for item in value]
        if isinstance(value, Table):
            result = Table()
            for key, item in value.items():
                where = value.places.get(key, place)
                name = self._key(key, where)
                result[name] = self._filled(item, where)
                if where:
                    result.places[name] = where
            return result
        return value

    def _key(self, key: Any, place: Place | None) -> Any:
        name = self._templates.fill(key, place) if isinstance(key, str) else key
        if isinstance(name, dict | list | tuple):
            raise wrong(place, f"a {type(name).__name__} cannot be a key")
        return name
