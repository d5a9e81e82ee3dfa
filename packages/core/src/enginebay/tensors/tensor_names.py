"""Names of inputs and outputs: unused names, and names that the user chose."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from enginebay.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

_T = TypeVar("_T")


def choose_unused_name(name: str, taken: Container[str]) -> str:
    """Return the name if it is unused, else the name with the first unused number: ``x_1``."""
    if name not in taken:
        return name
    number = 1
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def rename_tensors(kind: str, values: dict[str, _T], names: Sequence[str] | None) -> dict[str, _T]:
    """Return ``values`` with the user's names as keys; unchanged if ``names`` is None.

    Raises:
        InputError: The number of names is wrong, a name is empty, or a name occurs twice.
    """
    if names is None:
        return values
    # A text would be read as one name per letter.
    if isinstance(names, str) or len(names) != len(values):
        given = [names] if isinstance(names, str) else names
        raise InputError(
            f"{kind}_names: expected {len(values)} names ({', '.join(values)}), "
            f"found {len(given)} ({', '.join(given)})"
        )
    invalid = [name for name, count in Counter(names).items() if count > 1 or not name]
    if invalid:
        raise InputError(
            f"{kind}_names: expected a unique name for each {kind}, found the empty or "
            f"repeated name '{invalid[0]}'"
        )
    return dict(zip(names, values.values(), strict=True))
