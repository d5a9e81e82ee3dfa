"""What a model is for: plain data that artifacts keep, and that a plugin understands.

A record is a mapping with its kind under ``type``. Whatever else is in it belongs to the plugin
that declares the kind with the hook ``tasks``.
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
from enginebay.plugins import KNOWN_TASKS, contributed, errors_named

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["explain_unread_task", "read_task", "record_task"]

_WANTED = "wanted a mapping with its kind under 'type', or the path of a JSON file that holds one"


def record_task(task: Any, origin: str = "the task") -> dict[str, Any]:
    """Return a task as a manifest keeps it, without a look at what belongs to its plugin.

    Args:
        task: A record; an object whose fields are one; or the path of a JSON file that holds one.
        origin: Its name in messages.

    Raises:
        UsageError: It is none of these.

    Example:
        >>> record_task({"type": "image-classification", "classes": ("cat", "dog")})
        {'type': 'image-classification', 'classes': ['cat', 'dog']}
    """
    if isinstance(task, str | PathLike):
        task = Path(task)
        origin, task = f"'{task}'", _from_file(task)
    try:
        record = msgspec.json.decode(msgspec.json.encode(task))
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as err:
        found = type(task).__name__
        raise UsageError(
            f"{origin} is of type {found}, and no plain data: {err}; {_WANTED}"
        ) from err
    if not isinstance(record, dict):
        raise UsageError(f"{origin} is of type {type(task).__name__}; {_WANTED}")
    if not isinstance(record.get("type"), str):
        found = f"{record['type']!r} under 'type'" if "type" in record else "no 'type'"
        raise UsageError(f"{origin} has {found}; {_WANTED}")
    return record


def read_task(task: Any, origin: str = "the task") -> Task:
    """Read a task with the plugin that declares its kind.

    Args:
        task: As for :func:`record_task`.
        origin: Its name in messages.

    Raises:
        UsageError: It is no task, or its plugin refuses a value.
        MissingDependencyError: No installed plugin declares its kind.
        PluginError: The plugin that declares it is broken, or two declare it.
    """
    record = record_task(task, origin)
    if isinstance(task, str | PathLike):
        origin = f"'{Path(task)}'"
    kind = record["type"]
    kinds = contributed("tasks")
    if kind not in kinds:
        raise _missing(kind, kinds, origin)
    try:
        with errors_named(PluginError, f"what reads tasks of the kind '{kind}' raised"):
            found = kinds[kind](record)
    except UsageError as err:
        raise UsageError(f"{origin}: {err}", hint=err.hint) from err
    if not isinstance(found, Task):
        raise PluginError(
            f"what reads tasks of the kind '{kind}' returned {found!r:.80}: wanted an object with "
            "the methods of an enginebay.hooks.Task"
        )
    return found


def explain_unread_task(record: Mapping[str, Any]) -> str:
    """Say what to install for an artifact's task; empty where it can be read here."""
    try:
        read_task(record)
    except EnginebayError as err:
        return f"{err}; {err.hint}" if err.hint else str(err)
    return ""


def _from_file(path: Path) -> Mapping[str, Any]:
    check_text(str(path))
    try:
        data = msgspec.json.decode(path.read_bytes())
    except OSError as err:
        raise UsageError(f"'{path}' cannot be read: {err.strerror}") from err
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise UsageError(f"'{path}' is no task in JSON: {err}") from err
    if not isinstance(data, dict):
        raise UsageError(f"'{path}' is no task in JSON: wanted an object in braces")
    return data


def _missing(kind: str, kinds: Mapping[str, Any], origin: str) -> EnginebayError:
    """Build the error of a kind that no installed plugin declares."""
    message = f"{origin} is of the kind '{kind}', and no installed plugin declares it"
    close = nearest(kind, {*kinds, *KNOWN_TASKS})
    if close and close != kind:
        return UsageError(message, hint=f"did you mean '{close}'?")
    known = KNOWN_TASKS.get(kind)
    how = f"pip install {known}" if known else "install the package that declares it"
    return MissingDependencyError(message, hint=how)
