"""Replaces the compiled operators of mmcv, if pip built mmcv without them."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn

from enginebay.errors import ModelSourceError

if TYPE_CHECKING:
    from collections.abc import Callable


def replace_operators() -> None:
    """Let ``mmcv.ops`` be imported from an mmcv without compiled operators.

    Operators in plain torch replace the compiled ones; a call of any other raises a
    ``ModelSourceError``. An mmcv with compiled operators stays as it is.
    """
    if "mmcv._ext" not in sys.modules and find_spec("mmcv") and find_spec("mmcv._ext") is None:
        module = _WithoutOperators("mmcv._ext")
        module.__spec__ = ModuleSpec("mmcv._ext", None)  # mmengine looks for it
        sys.modules["mmcv._ext"] = module


class _WithoutOperators(ModuleType):
    """Replaces mmcv's compiled module; a call of an operator not in ``operators.py`` fails."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        from enginebay_openmmlab import operators

        return getattr(operators, name, None) or _make_missing(name)


def _make_missing(name: str) -> Callable[..., NoReturn]:
    def operator(*_: object, **__: object) -> NoReturn:
        raise ModelSourceError(
            f"the model requires mmcv's operator '{name}', which is not compiled in this mmcv "
            "and has no replacement"
        )

    return operator
