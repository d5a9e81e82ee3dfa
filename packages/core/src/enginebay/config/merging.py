"""Merging a config with those that it inherits."""

from __future__ import annotations

from typing import Any

from enginebay.config.places import Table, error_at

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
        name = _name_in_base(key, base)
        place = child.places.get(key)
        if not isinstance(value, Table) or value.get(DELETE) or name not in merged:
            merged[name] = _without_delete(value)
        elif isinstance(merged[name], Table):
            merged[name] = merge(value, merged[name])
        else:
            raise error_at(
                place,
                f"'{key}' is a dict, and a {type(merged[name]).__name__} in the base: "
                "the two cannot be merged",
                hint=f"add {DELETE}=True to the dict, and it replaces the base's value",
            )
        if place:
            merged.places[name] = place
    merged.pop(DELETE, None)
    return merged


def join(tables: list[Table]) -> Table:
    """Several bases together, which must not disagree.

    Raises:
        ConfigError: Two of them give one name different values.
    """
    joined = Table()
    for table in tables:
        for key, value in table.items():
            if key in joined and joined[key] != value:
                raise error_at(
                    table.places.get(key),
                    f"two bases give '{key}' different values: the other is at "
                    f"{joined.places.get(key)}",
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
    if isinstance(value, (list, range)):  # quicker than a union
        return list(map(plain, value))
    return value


def _without_delete(value: Any) -> Any:
    """The value without the ``_delete_`` of any dict in it, which have done their work."""
    if isinstance(value, Table):
        items = {key: _without_delete(item) for key, item in value.items() if key != DELETE}
        return Table(items, value.places)
    if isinstance(value, (list, tuple)):  # quicker than a union
        return type(value)(map(_without_delete, value))
    return value


def _name_in_base(key: Any, base: Table) -> Any:
    if isinstance(key, str) and key not in base and key.isdecimal() and len(key) < 10:
        return int(key) if int(key) in base else key
    return key
