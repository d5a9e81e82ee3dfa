"""Read and check the fields of one section of a config."""

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
    kind: type[Section], content: Mapping[str, object], path: KeyPath, problems: Problems
) -> Section:
    """Convert one section to a struct; an invalid value is replaced by the field's default.

    Args:
        kind: The struct class of the section.
        content: The section's keys and values.
        path: The keys and indices that lead from the config to the section.
        problems: Collects the errors.
    """
    fields = declared_fields(kind)
    values: dict[str, Any] = {}
    for key, value in content.items():
        if key in fields:
            field = msgspec.structs.replace(fields[key], owner=join_keys(path))
            with problems.collecting((*path, key)):
                # None means the default, as in the constructor of params.
                values[key] = field.default if value is None else field.convert(value)
        elif kind.__struct_config__.forbid_unknown_fields:
            owners = [name for name, cls in OPTIONS.items() if key in cls.__struct_fields__]
            hint = f"write {key} in {owners[0]}" if owners else None
            problems.unknown((*path, key), fields, hint)
    return kind(**values)


def join_keys(path: KeyPath) -> str:
    """Join keys and indices with dots.

    Example:
        >>> join_keys(("partition_config", "partition_cfg", 0, "end"))
        'partition_config.partition_cfg.0.end'
    """
    return ".".join(map(str, path))
