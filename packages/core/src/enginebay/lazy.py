"""Names that a package offers and imports only when one of them is used.

Start-up has a budget: ``enginebay backends`` must not import NumPy, and ``import enginebay`` must
import nothing. Where that matters, a package's ``__init__`` uses this; elsewhere it imports.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Door(NamedTuple):
    """What a package's ``__init__`` is made of.

    Attributes:
        getattr: Its ``__getattr__`` (PEP 562), which imports a name where it is defined.
        dir: Its ``__dir__``.
        names: Its ``__all__``.
    """

    getattr: Callable[[str], Any]
    dir: Callable[[], list[str]]
    names: list[str]


def lazy_names(package: str, homes: Mapping[str, str]) -> Door:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package that imports lazily.

    A type checker reads the names from imports under ``TYPE_CHECKING``, each as itself:
    ``from enginebay.errors import EnginebayError as EnginebayError``.

    Args:
        package: The package's ``__name__``.
        homes: Module, relative to the outermost package, to the names that it defines, with blanks
            between them.

    Example:
        >>> door = lazy_names("enginebay", {"errors": "EnginebayError UsageError"})
        >>> door.getattr("EnginebayError").__module__
        'enginebay.errors'
    """
    root = package.partition(".")[0]
    modules = {name: module for module, names in homes.items() for name in names.split()}

    def fetch(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(import_module(f"{root}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    names = sorted(modules)
    return Door(fetch, lambda: sorted(sys.modules[package].__all__), names)
