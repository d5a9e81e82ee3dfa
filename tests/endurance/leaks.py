"""The functions and modules of a process, which must be unchanged afterwards."""

from __future__ import annotations

import sys
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias

from torch import nn

if TYPE_CHECKING:
    from collections.abc import Iterator

    Functions: TypeAlias = dict[tuple[str, str], tuple[int, int]]


def functions() -> Functions:
    """Return every function of the loaded modules and their classes, with its code, by path."""
    found = {}
    for place, value in _values():
        if type(value) in (staticmethod, classmethod):
            value = value.__func__
        # Not isinstance, which reads `__class__`: deprecated objects would warn.
        if type(value) is FunctionType:
            found[place] = id(value), id(value.__code__)
        elif type(value) is BuiltinFunctionType:
            found[place] = id(value), 0
    return found


def changes(before: Functions, after: Functions, module: str) -> list[str]:
    """Return the paths with a different object or different code; new paths only in ``module``.

    Libraries, such as torch, add functions to their own modules at the first use.
    """
    changed = [place for place, value in before.items() if after.get(place) != value]
    added = [place for place in after.keys() - before.keys() if place[0].startswith(module)]
    return [".".join(place) for place in (*changed, *added)]


def is_altered(module: nn.Module) -> bool:
    """Return True if a module's dictionaries were not created by torch."""
    plain = vars(nn.Module())
    return any(type(vars(module)[name]) is not type(value) for name, value in plain.items())


def _values() -> Iterator[tuple[tuple[str, str], Any]]:
    for name, module in list(sys.modules.items()):
        for key, value in list(vars(module).items()):
            yield (name, key), value
            if issubclass(type(value), type):
                for attribute, member in list(vars(value).items()):
                    yield (f"{name}.{key}", attribute), member
