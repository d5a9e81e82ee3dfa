"""Argument names of the bindings' methods, which pybind11 writes into their docstrings."""

from __future__ import annotations

import inspect
import re
from typing import Any

_SIGNATURE = re.compile(r"^(?:\d+\. )?(\w+)\((.*)\) -> ", re.MULTILINE)


def overloads(method: Any) -> list[list[str]]:
    """Return each overload's argument names without ``self``, with and without the optional.

    >>> class Method:
    ...     __doc__ = "f(self: a.B, x: dict[str, int], y: int = <E.A: (1, 2)>) -> None"
    >>> overloads(Method)
    [['x', 'y'], ['x']]
    """
    found = [_arguments(match[2]) for match in _SIGNATURE.finditer(method.__doc__ or "")]
    found = [each for each in found if each != [("args", False), ("kwargs", False)]]
    whole = [[name for name, _ in each] for each in found]
    return whole + [
        [name for name, optional in each if not optional]
        for each in found
        if any(optional for _, optional in each)
    ]


def _arguments(text: str) -> list[tuple[str, bool]]:
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{<") - (character in ")]}>")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    named = [(part.split(":")[0].split("=")[0].strip(" *"), " = " in part) for part in parts]
    return [(name, optional) for name, optional in named if name and name != "self"]


def differences(fake: type, real: type) -> list[str]:
    """What a stand-in has that the real class has not, or has otherwise."""
    found = []
    for name, member in vars(fake).items():
        if name.startswith("_") and name != "__init__":
            continue
        theirs = getattr(real, name, None)
        if theirs is None:
            found.append(f"{real.__name__} has no {name}")
        elif isinstance(member, property):
            if not isinstance(theirs, property):
                found.append(f"{real.__name__}.{name} is no property")
            elif member.fset is not None and theirs.fset is None:
                found.append(f"{real.__name__}.{name} cannot be set")
        elif inspect.isfunction(member):
            mine = list(inspect.signature(member).parameters)[1:]
            if name == "__init__" and not overloads(theirs):
                continue  # only the library creates objects, so this is never called
            if mine not in overloads(theirs):
                found.append(f"{real.__name__}.{name} takes {overloads(theirs)}, not {mine}")
    return found
