"""Merge a config with the files that it inherits from (its bases)."""

from __future__ import annotations

from typing import Any

from enginebay.config.locations import LocatedDict, error_at

DELETE = "_delete_"


def merge_into(child: LocatedDict, base: LocatedDict) -> LocatedDict:
    """Return the config ``child`` merged into ``base``, from which the config inherits.

    Dicts are merged; any other value of the child replaces the base's value. A dict of the child
    with ``_delete_=True`` replaces the base's dict. A key like ``"0"`` in the child matches the key
    0 in the base, since keys in JSON and TOML are always texts.

    Raises:
        ConfigError: The child has a dict where the base has a value of another type.
    """
    # A copy: a base that is inherited twice is read only once.
    merged = LocatedDict(base, dict(base.locations))
    for key, value in child.items():
        name = _find_base_key(key, base)
        location = child.locations.get(key)
        if not isinstance(value, LocatedDict) or value.get(DELETE) or name not in merged:
            merged[name] = _without_delete(value)
        elif isinstance(merged[name], LocatedDict):
            merged[name] = merge_into(value, merged[name])
        else:
            raise error_at(
                location,
                f"'{key}' is a dict here and a {type(merged[name]).__name__} in the base: "
                "they cannot be merged",
                hint=f"add {DELETE}=True to the dict to replace the base's value",
            )
        if location:
            merged.locations[name] = location
    merged.pop(DELETE, None)
    return merged


def join_bases(tables: list[LocatedDict]) -> LocatedDict:
    """Return one dict with the keys of several bases (files that a config inherits from).

    Raises:
        ConfigError: Two bases have different values for the same key.
    """
    joined = LocatedDict()
    for table in tables:
        for key, value in table.items():
            if key in joined and joined[key] != value:
                raise error_at(
                    table.locations.get(key),
                    f"two bases have different values for '{key}': the other value is at "
                    f"{joined.locations.get(key)}",
                    hint=f"remove one base from _base_, or move '{key}' into a separate file",
                )
            joined[key] = value
        joined.locations.update(table.locations)
    return joined


def plain(value: object) -> Any:
    """Convert every :class:`LocatedDict` to a dict, and every range to a list, at any depth."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, (list, range)):  # faster than a union
        return list(map(plain, value))
    return value


def _without_delete(value: object) -> object:
    """Return a copy of a value without the keys ``_delete_``, at any depth."""
    if isinstance(value, LocatedDict):
        items = {key: _without_delete(item) for key, item in value.items() if key != DELETE}
        return LocatedDict(items, value.locations)
    if isinstance(value, (list, tuple)):  # faster than a union
        return type(value)(map(_without_delete, value))
    return value


def _find_base_key(key: object, base: LocatedDict) -> object:
    # At most 9 digits: int() is slow for thousands, and raises an error from 4,300 on.
    if isinstance(key, str) and key not in base and key.isdecimal() and len(key) < 10:
        return int(key) if int(key) in base else key
    return key
