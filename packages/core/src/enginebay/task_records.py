"""The record of a task: plain data with a kind, which an artifact stores."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.errors import UsageError, check_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_EXPECTED = "expected a mapping with the kind under 'type', or the path of such a JSON file"


def record_task(task: object, origin: str = "the task") -> dict[str, Any]:
    """Return a task's record: a dict of plain data, of which only the key ``type`` is checked.

    Args:
        task: A record (a mapping), an object with the same fields, or the path of a JSON file with
            a record.
        origin: A description of the task for messages.

    Raises:
        UsageError: The task has none of these forms, or the key ``type`` is missing.

    Example:
        >>> record_task({"type": "image-classification", "classes": ("cat", "dog")})
        {'type': 'image-classification', 'classes': ['cat', 'dog']}
    """
    if isinstance(task, str | PathLike):
        task = Path(task)
        origin, task = f"'{task}'", _read_file(task)
    try:
        # As plain data, so that an artifact can be loaded without the plugin of its task.
        record = msgspec.json.decode(msgspec.json.encode(task))
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as err:
        kind = type(task).__name__
        raise UsageError(
            f"{origin} is of type {kind}, which is not plain data: {err}; {_EXPECTED}"
        ) from err
    if not isinstance(record, dict):
        raise UsageError(f"{origin} is of type {type(task).__name__}; {_EXPECTED}")
    if not isinstance(record.get("type"), str):
        found = f"{record['type']!r} under 'type'" if "type" in record else "no 'type'"
        raise UsageError(f"{origin} has {found}; {_EXPECTED}")
    return record


def _read_file(path: Path) -> Mapping[str, object]:
    check_text(str(path))
    try:
        data = msgspec.json.decode(path.read_bytes())
    except OSError as err:
        raise UsageError(f"'{path}' cannot be read: {err.strerror}") from err
    # msgspec raises RecursionError for deeply nested JSON.
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise UsageError(f"'{path}' is not a task in JSON: {err}") from err
    if not isinstance(data, dict):
        raise UsageError(f"'{path}' is not a task in JSON: expected a JSON object")
    return data
