"""The models by name, for sources such as ``tests.zoo.by_name:deberta-v2``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .models import ZOO, build

if TYPE_CHECKING:
    from collections.abc import Callable


def __getattr__(name: str) -> Callable[[], Any]:
    if name not in ZOO:
        raise AttributeError(name)
    return lambda: build(name)
