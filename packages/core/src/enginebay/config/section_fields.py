"""The fields of one section, checked key by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from enginebay.config.options import OPTIONS
from enginebay.params import declared_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from enginebay.config.problems import Problems

KeyPath = tuple[str | int, ...]
Section = TypeVar("Section", bound=msgspec.Struct)


def read_section(
    kind: type[Section], given: Mapping[str, Any], path: KeyPath, problems: Problems
) -> Section:
    """Read one section; a value that is not valid stays at its default.

    Args:
        kind: The section's type.
        given: Its keys and values.
        path: The keys and indices that lead to it.
        problems: The list for everything that is wrong.
    """
    fields = declared_fields(kind)
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key in fields:
            field = msgspec.structs.replace(fields[key], owner=dotted(path))
            with problems.collecting((*path, key)):
                values[key] = field.default if value is None else field.convert(value)
        elif kind.__struct_config__.forbid_unknown_fields:
            homes = [name for name, one in OPTIONS.items() if key in one.__struct_fields__]
            hint = f"write {key} in {homes[0]}" if homes else None
            problems.unknown((*path, key), fields, hint)
    return kind(**values)


def dotted(path: KeyPath) -> str:
    """Return keys and indices as one text.

    Example:
        >>> dotted(("partition_config", "partition_cfg", 0, "end"))
        'partition_config.partition_cfg.0.end'
    """
    return ".".join(map(str, path))
