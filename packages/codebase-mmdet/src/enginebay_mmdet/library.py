"""Imports mmdet, which may not be installed; mmcv may be installed without compiled operators."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn

from enginebay.environment import install_command
from enginebay.errors import MissingDependencyError, ModelSourceError

if TYPE_CHECKING:
    from collections.abc import Callable

_PACKAGE = "enginebay-mmdet[mmdet]"


def import_library() -> ModuleType:
    """Import mmdet and register its models.

    Raises:
        MissingDependencyError: mmdet is not installed, or cannot be imported.
    """
    if find_spec("mmdet") is None:
        raise MissingDependencyError(
            "a model 'mmdet:NAME' requires mmdet, which is not installed",
            hint=install_command(_PACKAGE),
        )
    try:
        # pip builds mmcv without torch, and so without its compiled operators.
        if "mmcv._ext" not in sys.modules and find_spec("mmcv._ext") is None:
            sys.modules["mmcv._ext"] = _WithoutOperators("mmcv._ext")
        import_module("mmdet.models")
        return import_module("mmdet")
    except Exception as err:  # packages check each other's versions; torchvision may fail
        why = str(err).partition("\n")[0]
        raise MissingDependencyError(
            f"mmdet is installed but cannot be imported: {type(err).__name__}: {why}",
            hint=f"{install_command(_PACKAGE)}, with matching builds of torch and torchvision",
        ) from err


class _WithoutOperators(ModuleType):
    """Replaces mmcv's compiled module; a call of an operator not in ``operators.py`` fails."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        from enginebay_mmdet import operators

        return getattr(operators, name, None) or _make_missing(name)


def _make_missing(name: str) -> Callable[..., NoReturn]:
    def operator(*_: object, **__: object) -> NoReturn:
        raise ModelSourceError(
            f"the model requires mmcv's operator '{name}', which is not compiled in this mmcv "
            "and has no replacement"
        )

    return operator
