"""Imports mmseg, which may not be installed, or not in a version that imports here."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from enginebay.environment import install_command
from enginebay.errors import MissingDependencyError

if TYPE_CHECKING:
    from types import ModuleType

_PACKAGE = "enginebay-mmseg[mmseg]"
#: The distribution that the package's extra installs.
_FORK = "onedl-mmsegmentation"


def import_library() -> ModuleType:
    """Import mmseg and register its models.

    Raises:
        MissingDependencyError: mmseg is not installed, or cannot be imported.
    """
    if find_spec("mmseg") is None:
        raise MissingDependencyError(
            "a model 'mmseg:NAME' requires mmseg, which is not installed",
            hint=install_command(_PACKAGE),
        )
    try:
        import_module("mmseg.models")
        return import_module("mmseg")
    except Exception as err:  # packages check each other's versions, and need compiled operators
        why = str(err).partition("\n")[0]
        found = sorted(set(packages_distributions().get("mmseg", ())))
        # Both forks have the same files: the removal of one damages the other.
        remove = f"pip uninstall {' '.join(found)}, then " if {*found} - {_FORK} else ""
        versions = ", ".join(f"{name} {version(name)}" for name in found)
        raise MissingDependencyError(
            f"mmseg is installed{versions and f' ({versions})'} but cannot be imported: "
            f"{type(err).__name__}: {why}",
            hint=f"{remove}{install_command(_PACKAGE)}",
        ) from err
