"""Names that are free, and names that users chose."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from enginebay.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

_T = TypeVar("_T")


def choose_unused_name(name: str, taken: Container[str]) -> str:
    """The name, or the name with the first free number."""
    if name not in taken:
        return name
    number = 1
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def renamed(kind: str, found: dict[str, _T], names: Sequence[str] | None) -> dict[str, _T]:
    """Replace the keys of ``found`` by the user's names, if there are any.

    Raises:
        InputError: Another number of names, an empty one, or one twice.
    """
    if names is None:
        return found
    if isinstance(names, str) or len(names) != len(found):
        given = [names] if isinstance(names, str) else names
        wanted = f"the model has {len(found)} {kind}s ({', '.join(found)})"
        message = f"{kind}_names has {len(given)} names ({', '.join(given)}); {wanted}"
        raise InputError(message)
    repeated = [name for name, count in Counter(names).items() if count > 1 or not name]
    if repeated:
        raise InputError(f"{kind}_names has '{repeated[0]}' where every {kind} needs its own name")
    return dict(zip(names, found.values(), strict=True))
