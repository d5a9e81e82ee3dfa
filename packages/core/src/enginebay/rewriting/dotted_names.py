"""Lookup of dotted names in the modules that are loaded."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from enginebay.errors import nearest

if TYPE_CHECKING:
    from types import ModuleType


class ResolvedName(NamedTuple):
    """The attribute that a dotted name refers to.

    Attributes:
        owner: The module, class or object that has the attribute.
        attribute: The attribute's name.
        value: The attribute's value; for an attribute of a class, the raw descriptor, such as a
            ``staticmethod``.
        inherited: True if ``owner`` inherits the attribute from a base class.
    """

    owner: Any
    attribute: str
    value: Any
    inherited: bool


class NameNotFoundError(LookupError):
    """No loaded module has the dotted name; the message is one line and quotes the missing part."""


def find_name(name: str, subject: object = None) -> ResolvedName:
    """Find the attribute that a dotted name currently refers to; ``subject`` if that is given.

    The lookup imports nothing: a model cannot call code that is not loaded.

    Raises:
        NameNotFoundError: No loaded module has the name.
    """
    if subject is not None:  # a function's code is replaced, and thereby all names for it
        return ResolvedName(subject, "__code__", subject, inherited=False)
    parts = name.split(".")
    # The longest module name first: `package.module` may also be an attribute of `package`.
    for length in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:length]))
        if module is not None:
            return _find_in_module(name, module, parts, length)
    raise NameNotFoundError(f'"{name}" was not found: no module "{parts[0]}" is loaded')


def _find_in_module(name: str, module: ModuleType, parts: list[str], length: int) -> ResolvedName:
    owner: object = module
    for index in range(length, len(parts) - 1):
        if not hasattr(owner, parts[index]):
            raise _not_found_error(name, owner, parts, index)
        owner = getattr(owner, parts[index])
    resolved = find_attribute(owner, parts[-1])
    if resolved is None:
        raise _not_found_error(name, owner, parts, len(parts) - 1)
    return resolved


def find_attribute(owner: object, attribute: str) -> ResolvedName | None:
    """Return an attribute of an object; None if the object has no such attribute."""
    if isinstance(owner, type):
        # Not getattr, which would call the descriptor: a patch must restore the raw value.
        for klass in owner.__mro__:
            if attribute in vars(klass):
                return ResolvedName(owner, attribute, vars(klass)[attribute], klass is not owner)
        return None
    if not hasattr(owner, attribute):
        return None
    return ResolvedName(owner, attribute, getattr(owner, attribute), inherited=False)


def _not_found_error(name: str, owner: object, parts: list[str], index: int) -> NameNotFoundError:
    guess = nearest(parts[index], dir(owner))
    question = f' (did you mean "{guess}"?)' if guess else ""
    path = ".".join(parts[:index])
    return NameNotFoundError(f'"{name}" was not found: "{path}" has no "{parts[index]}"{question}')
