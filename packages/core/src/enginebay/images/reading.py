"""A task from what a user gives: an object, plain data, or a JSON file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from enginebay.errors import UsageError, check_text
from enginebay.images.classification import ImageClassification
from enginebay.images.detection import ObjectDetection
from enginebay.images.task import Task

_TASKS = ImageClassification | ObjectDetection


def read_task(task: Any, origin: str = "the task") -> Task:
    """Read a task and check each value in it.

    Args:
        task: A :class:`Task`; plain data as in a manifest; or the path of a JSON file that holds
            such data.
        origin: Its name in messages.

    Raises:
        UsageError: It is no task, or a value is wrong.

    Example:
        >>> read_task({"type": "image-classification", "image": {"input": "x"}}).image.input
        'x'
    """
    if isinstance(task, str | Path):
        return _from_file(Path(task))
    if not isinstance(task, Task | Mapping):
        raise UsageError(
            f"{origin} is of type {type(task).__name__}; wanted an eb.ImageClassification, an "
            "eb.ObjectDetection, or the path of a JSON file"
        )
    try:
        # Also of an object: its constructor has not checked types.
        plain = msgspec.to_builtins(task) if isinstance(task, Task) else dict(task)
        read: Task = msgspec.convert(plain, _TASKS, strict=True)
    except (msgspec.ValidationError, UsageError, TypeError) as err:
        raise UsageError(f"{origin}: {err}", hint=getattr(err, "hint", None)) from err
    return read


def _from_file(path: Path) -> Task:
    check_text(str(path))
    try:
        data = msgspec.json.decode(path.read_bytes())
    except OSError as err:
        raise UsageError(f"'{path}' cannot be read: {err.strerror}") from err
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise UsageError(f"'{path}' is no task in JSON: {err}") from err
    if not isinstance(data, dict):
        raise UsageError(f"'{path}' is no task in JSON: wanted an object in braces")
    return read_task(data, f"'{path}'")


def task_record(task: Task | None) -> dict[str, Any] | None:
    """The task as a manifest keeps it."""
    return None if task is None else msgspec.json.decode(msgspec.json.encode(task))
