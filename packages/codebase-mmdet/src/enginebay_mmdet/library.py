"""Import of mmdet, which may be missing, beside an mmcv that may lack its compiled operators."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from enginebay.errors import MissingDependencyError, ModelSourceError

_INSTALL = "pip install 'enginebay-mmdet[mmdet]'"


def library() -> Any:
    """Import mmdet and register its models.

    Raises:
        MissingDependencyError: It is not installed, or does not import.
    """
    if find_spec("mmdet") is None:
        raise MissingDependencyError(
            "'mmdet:' names models of mmdet, which is not installed", hint=_INSTALL
        )
    try:
        if "mmcv._ext" not in sys.modules and find_spec("mmcv._ext") is None:
            sys.modules["mmcv._ext"] = _WithoutOperators("mmcv._ext")
        import_module("mmdet.models")
        return import_module("mmdet")
    except Exception as err:  # its parts assert versions of each other; torchvision's may not load
        why = str(err).partition("\n")[0]
        raise MissingDependencyError(
            f"mmdet is installed and does not import: {type(err).__name__}: {why}",
            hint=f"{_INSTALL}, with builds of torch and torchvision that belong together",
        ) from err


class _WithoutOperators(ModuleType):
    """mmcv's compiled operators where they are not compiled: ours, and an error for the rest."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        from enginebay_mmdet import operators

        return getattr(operators, name, None) or _missing(name)


def _missing(name: str) -> Any:
    def operator(*_: Any, **__: Any) -> Any:
        raise ModelSourceError(
            f"the model needs mmcv's operator '{name}', which is not compiled here and has no "
            "replacement"
        )

    return operator
