"""Import of mmpretrain, which may be missing."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from enginebay.errors import MissingDependencyError

_INSTALL = "pip install 'enginebay-mmpretrain[mmpretrain]'"


def library() -> Any:
    """Import mmpretrain.

    Raises:
        MissingDependencyError: It is not installed, or does not import.
    """
    if find_spec("mmpretrain") is None:
        raise MissingDependencyError(
            "'mmpretrain:' names models of mmpretrain, which is not installed", hint=_INSTALL
        )
    try:
        return import_module("mmpretrain")
    except Exception as err:  # its parts assert versions of each other; torchvision's may not load
        why = str(err).partition("\n")[0]
        raise MissingDependencyError(
            f"mmpretrain is installed and does not import: {type(err).__name__}: {why}",
            hint=f"{_INSTALL}, with builds of torch and torchvision that belong together",
        ) from err
