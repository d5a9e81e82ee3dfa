"""The numbers of classes that a data set names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.errors import InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence


def number_classes(
    names: Sequence[str], classes: Sequence[str], description: str, kind: str
) -> tuple[str, list[int]]:
    """Return the rule by which a data set's classes are numbered, and their numbers.

    Args:
        names: The data set's names, in its order.
        classes: The task's names; empty if it has none.
        description: The data set in messages.
        kind: ``folder`` or ``category``, for messages.

    Raises:
        InputError: A name is none of the task's, or stands for two of its classes.
    """
    unknown = [name for name in names if name not in classes]
    # As torchvision's ImageFolder: datasets whose folders have codes for names rely on it.
    if not classes or (len(unknown) == len(names) == len(classes)):
        return f"sorted {kind}s", list(range(len(names)))
    if unknown:
        close = nearest(unknown[0], classes)
        raise InputError(
            f"{description} has a {kind} '{unknown[0]}', which is none of the task's "
            f"{len(classes)} classes",
            hint=f"did you mean '{close}'?" if close else f"name each {kind} as its class",
        )
    for name in names:
        if list(classes).count(name) > 1:
            raise InputError(
                f"{description} has a {kind} '{name}', and two classes of the task are called so"
            )
    return "class names", [list(classes).index(name) for name in names]
