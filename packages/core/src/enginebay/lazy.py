"""Lazy imports: a package's public names, or a module, are imported at their first use.

``import enginebay`` must import nothing else, and ``enginebay backends`` must not import NumPy, so
that both start fast. This module is used only by packages that one of these two commands imports.
"""

from __future__ import annotations

import sys
from importlib import import_module

# Not from typing, whose import takes half of the time of `enginebay --version`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeAlias

    #: ``__getattr__``, ``__dir__`` and ``__all__`` of a package.
    Door: TypeAlias = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]


class _LazyModule:
    """A stand-in for a module, which is imported when one of its attributes is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


def lazy_module(name: str) -> Any:
    """Return a stand-in for a module that is imported when one of its attributes is first used.

    A file of rewriters can thus be listed where torch is not installed::

        if TYPE_CHECKING:
            import torch
        else:
            torch = lazy_module("torch")

    Example:
        >>> lazy_module("math").floor(2.5)
        2
    """
    return _LazyModule(name)


def lazy_names(package: str, homes: Mapping[str, str]) -> Door:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for a package that imports lazily.

    For type checkers, the package must also import each name as itself under ``TYPE_CHECKING``:
    ``from enginebay.errors import EnginebayError as EnginebayError``.

    Args:
        package: The package's ``__name__``.
        homes: Name of a module, relative to the top-level package → the public names in this
            module, separated by spaces.

    Example:
        >>> fetch, _, names = lazy_names("enginebay", {"errors": "EnginebayError UsageError"})
        >>> fetch("EnginebayError").__module__
        'enginebay.errors'
    """
    root = package.partition(".")[0]
    modules = {name: module for module, names in homes.items() for name in names.split()}

    def fetch(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(import_module(f"{root}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)  # the next access does not call fetch
        return value

    names = sorted(modules)
    # __all__ is read at each call, since a package may add names to it: __version__, for example.
    return fetch, lambda: sorted(sys.modules[package].__all__), names
