"""Imports mmpretrain, which may not be installed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from enginebay.environment import install_command
from enginebay.errors import MissingDependencyError

if TYPE_CHECKING:
    from types import ModuleType

_PACKAGE = "enginebay-mmpretrain[mmpretrain]"


def import_library() -> ModuleType:
    """Import mmpretrain, without its multimodal models.

    Raises:
        MissingDependencyError: mmpretrain is not installed, or cannot be imported.
    """
    if find_spec("mmpretrain") is None:
        raise MissingDependencyError(
            "a model 'mmpretrain:NAME' requires mmpretrain, which is not installed",
            hint=install_command(_PACKAGE),
        )
    try:
        library = import_module("mmpretrain")
        # No classifier needs the multimodal models. mmpretrain imports them with its classifiers if
        # transformers and pycocotools are installed, which raises with transformers 5.
        import_module("mmpretrain.utils.dependency").WITH_MULTIMODAL = False  # type: ignore[attr-defined]
        import_module("mmpretrain.models")
    except Exception as err:  # packages check each other's versions; torchvision may fail
        why = str(err).partition("\n")[0]
        raise MissingDependencyError(
            f"mmpretrain is installed but cannot be imported: {type(err).__name__}: {why}",
            hint=f"{install_command(_PACKAGE)}, with matching builds of torch and torchvision",
        ) from err
    return library
