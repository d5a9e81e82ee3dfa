"""Look-up of dotted names among the modules that are loaded."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from enginebay.errors import nearest


class Found(NamedTuple):
    """The attribute that a dotted name leads to.

    Attributes:
        owner: The module, class or object that has the attribute.
        attribute: The attribute's name.
        value: The attribute itself; from a class the raw one, such as a ``staticmethod``.
        inherited: True if a base class of ``owner`` has it, not ``owner`` itself.
    """

    owner: Any
    attribute: str
    value: Any
    inherited: bool


class NameNotFoundError(LookupError):
    """No loaded module has the name; the message says in one line how far it led."""


def find(name: str) -> Found:
    """Find the attribute that ``name`` names now.

    Nothing is imported for it: a model cannot call code that is not loaded.

    Raises:
        NameNotFoundError: No loaded module has it.
    """
    parts = name.split(".")
    # The longest module first: `package.module` may also be an attribute of `package`.
    for length in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:length]))
        if module is not None:
            return _walk(name, module, parts, length)
    raise NameNotFoundError(f'"{name}" was not found: no module "{parts[0]}" is loaded')


def _walk(name: str, module: Any, parts: list[str], length: int) -> Found:
    owner = module
    for index in range(length, len(parts) - 1):
        if not hasattr(owner, parts[index]):
            raise _missing(name, owner, parts, index)
        owner = getattr(owner, parts[index])
    found = attribute_of(owner, parts[-1])
    if found is None:
        raise _missing(name, owner, parts, len(parts) - 1)
    return found


def attribute_of(owner: Any, attribute: str) -> Found | None:
    """Return an owner's attribute; None where it has none."""
    if isinstance(owner, type):
        # Not getattr, which would call the descriptor: a patch must put the raw value back.
        for klass in owner.__mro__:
            if attribute in vars(klass):
                return Found(owner, attribute, vars(klass)[attribute], klass is not owner)
        return None
    if not hasattr(owner, attribute):
        return None
    return Found(owner, attribute, getattr(owner, attribute), inherited=False)


def _missing(name: str, owner: Any, parts: list[str], index: int) -> NameNotFoundError:
    guess = nearest(parts[index], dir(owner))
    question = f' (did you mean "{guess}"?)' if guess else ""
    place = ".".join(parts[:index])
    return NameNotFoundError(f'"{name}" was not found: "{place}" has no "{parts[index]}"{question}')
