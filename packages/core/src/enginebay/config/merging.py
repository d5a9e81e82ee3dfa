"""How a config overrides what it inherits."""

from __future__ import annotations

from typing import Any

from enginebay.config.places import Table, wrong

DELETE = "_delete_"


def merge(child: Table, base: Table) -> Table:
    """A config laid over its base: dicts are merged, everything else is replaced.

    ``_delete_=True`` in a dict of the child replaces the base's dict instead. A key that is a
    number in the base may be a text in the child, whose format may have no other keys.

    Raises:
        ConfigError: The child has a dict where the base has something else.
    """
    merged = Table(base, dict(base.places))
    for key, value in child.items():
        place = child.places.get(key)
        name = _name(key, base)
        if isinstance(value, Table):
            inherited = merged.get(name)
            if name not in merged or value.get(DELETE):
                merged[name] = without_delete(value)
            elif isinstance(inherited, Table):
                merged[name] = merge(value, inherited)
            else:
                raise wrong(
                    place,
                    f"'{key}' is a dict, and a {type(inherited).__name__} in the base: "
                    "the two cannot be merged",
                    hint=f"add {DELETE}=True to the dict, and it replaces the base's value",
                )
        else:
            merged[name] = without_delete(value)
        if place:
            merged.places[name] = place
    merged.pop(DELETE, None)
    return merged


def without_delete(value: Any) -> Any:
    """The value with every ``_delete_`` taken out: it has done its work."""
    if not _holds_delete(value):
        return value
    if isinstance(value, Table):
        items = {key: without_delete(item) for key, item in value.items() if key != DELETE}
        return Table(items, value.places)
    return type(value)(map(without_delete, value))


def join(tables: list[Table]) -> Table:
    """Several bases together, which must not disagree.

    Raises:
        ConfigError: Two of them give one name different values.
    """
    joined = Table()
    for table in tables:
        for key, value in table.items():
            if key in joined and joined[key] != value:
                first = joined.places.get(key)
                raise wrong(
                    table.places.get(key),
                    f"two bases give '{key}' different values: the other is at {first}",
                    hint=f"take one of them out of _base_, or move '{key}' into a file of its own",
                )
            joined[key] = value
        joined.places.update(table.places)
    return joined


def plain(value: Any) -> Any:
    """The value in Python's own dicts and lists; a range becomes a list."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, list | range):
        return list(map(plain, value))
    return value


def _holds_delete(value: Any) -> bool:
    if isinstance(value, Table):
        return DELETE in value or any(map(_holds_delete, value.values()))
    return isinstance(value, list | tuple) and any(map(_holds_delete, value))


def _name(key: Any, base: Table) -> Any:
    if isinstance(key, str) and key not in base and key.isdecimal() and len(key) < 10:
        return int(key) if int(key) in base else key
    return key
