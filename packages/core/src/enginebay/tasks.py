"""The task of a model, such as image classification: its record, and how plugins read the record.

The record is a mapping with the task's kind under ``type``. All other keys belong to the plugin
that declares this kind with the hook ``tasks``.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from enginebay.errors import (
    EnginebayError,
    MissingDependencyError,
    PluginError,
    UsageError,
    check_text,
    nearest,
)
from enginebay.hooks import Task
from enginebay.plugins import contributed, errors_named, known_packages

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["explain_unread_task", "read_task", "record_task"]

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


def read_task(task: object, origin: str = "the task") -> Task:
    """Return a task as an object of the plugin that declares the task's kind.

    Args:
        task: The task, as for :func:`record_task`.
        origin: A description of the task for messages.

    Raises:
        UsageError: The task is invalid, or its plugin refuses a value.
        MissingDependencyError: No installed plugin declares the task's kind.
        PluginError: The plugin that declares the kind is broken, or two plugins declare it.
    """
    record = record_task(task, origin)
    if isinstance(task, str | PathLike):
        origin = f"'{Path(task)}'"
    kind = record["type"]
    kinds = contributed("tasks")
    if kind not in kinds:
        raise _unknown_kind(kind, kinds, origin)
    try:
        with errors_named(PluginError, f"the task reader of type '{kind}' raised"):
            result = kinds[kind](record)
    except UsageError as err:
        raise UsageError(f"{origin}: {err}", hint=err.hint) from err
    if not isinstance(result, Task):
        raise PluginError(
            f"the task reader of type '{kind}' returned {result!r:.80}: expected an object "
            "with the methods of an enginebay.hooks.Task"
        )
    return result


def explain_unread_task(record: Mapping[str, object]) -> str:
    """Return why a task cannot be read from its record, with a hint; empty if it can be read."""
    try:
        read_task(record)
    except EnginebayError as err:
        return f"{err}; {err.hint}" if err.hint else str(err)
    return ""


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


def _unknown_kind(kind: str, kinds: Mapping[str, object], origin: str) -> EnginebayError:
    message = f"{origin} is of the kind '{kind}', which no installed plugin declares"
    packages = known_packages("tasks")
    close = nearest(kind, {*kinds, *packages})
    if close and close != kind:
        return UsageError(message, hint=f"did you mean '{close}'?")
    known = packages.get(kind)
    how = f"pip install {known}" if known else "install the plugin that declares this kind"
    return MissingDependencyError(message, hint=how)
