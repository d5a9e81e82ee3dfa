"""An engine with its verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from enginebay import Receipt, Verification
    from enginebay.operations.build_engine import Engine


class Judged(NamedTuple):
    """An engine with its verdict."""

    engine: Engine
    verification: Verification
    receipt: Receipt | None


#: Gives the verdict on an engine.
Judge: TypeAlias = Callable[["Engine"], Judged]
