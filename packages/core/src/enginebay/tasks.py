"""The task of a model, such as image classification: its record, and how plugins read the record.

The record is a mapping with the task's kind under ``type``. All other keys belong to the plugin
that declares this kind with the hook ``tasks``.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from enginebay.errors import (
    EnginebayError,
    MissingDependencyError,
    PluginError,
    UsageError,
    nearest,
)
from enginebay.hooks import Task
from enginebay.installation import install_command
from enginebay.plugins import contributed, errors_named, known_packages
from enginebay.task_records import record_task

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["explain_unread_task", "read_task"]


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
        raise UsageError(f"{origin}: {err}", hint=err.full_hint) from err
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


def _unknown_kind(kind: str, kinds: Mapping[str, object], origin: str) -> EnginebayError:
    message = f"{origin} is of the kind '{kind}', which no installed plugin declares"
    packages = known_packages("tasks")
    close = nearest(kind, {*kinds, *packages})
    if close and close != kind:
        return UsageError(message, hint=f"did you mean '{close}'?")
    known = packages.get(kind)
    how = install_command(known) if known else "install the plugin that declares this kind"
    return MissingDependencyError(message, hint=how)
