"""Names that a package offers and imports only when one of them is used.

Start-up has a budget: ``enginebay backends`` must not import NumPy, and ``import enginebay`` must
import nothing. Where that matters, a package's ``__init__`` uses this; elsewhere it imports.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module's ``__getattr__`` (PEP 562) that imports a name where it is defined.

    Args:
        package: The package's ``__name__``.
        homes: Name to the module that defines it, relative to the outermost package.

    Example:
        >>> lazy_names("enginebay", {"EnginebayError": "errors"})("EnginebayError").__module__
        'enginebay.errors'
    """
    root = package.partition(".")[0]

    def fetch(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(import_module(f"{root}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return fetch
