"""Converts the class names of a data set to class indices of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence


def number_classes(
    names: Sequence[str], classes: Sequence[str], description: str, kind: str
) -> tuple[str, list[int]]:
    """Return how class indices were determined, and the class index of each name in ``names``.

    The first value is ``class names`` if the indices are positions in the task's class names, or
    ``sorted folders`` if the indices are positions in the data set's class names.

    Args:
        names: The class names of the data set, in the order of the data set.
        classes: The class names of the task; empty if the task has none.
        description: The name of the data set for messages.
        kind: ``folder`` or ``category``, for messages.

    Raises:
        InputError: A name is not a class of the task, or two classes of the task have the name.
    """
    unknown = [name for name in names if name not in classes]
    # Positions, like torchvision's ImageFolder: some data sets have codes as folder names.
    if not classes or (len(unknown) == len(names) == len(classes)):
        return f"sorted {kind}s", list(range(len(names)))
    if unknown:
        raise InputError(
            f"{description} has a {kind} '{unknown[0]}', which is not one of the task's "
            f"{len(classes)} classes",
            hint=did_you_mean(unknown[0], classes) or f"rename the {kind} to a class of the task",
        )
    for name in names:
        if list(classes).count(name) > 1:
            raise InputError(
                f"{description} has a {kind} '{name}', but two classes of the task have this name"
            )
    return "class names", [list(classes).index(name) for name in names]
