"""An engine with its verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from enginebay.inference import Receipt
    from enginebay.operations.build_engine import Engine
    from enginebay.verdict import Verification


class Judged(NamedTuple):
    """An engine with its verdict."""

    engine: Engine
    verification: Verification
    receipt: Receipt | None

    @property
    def passed(self) -> bool:
        """True if the engine is verified; its accuracy is part of that, where it was measured."""
        return self.verification.passed


#: Gives the verdict on an engine.
Judge: TypeAlias = Callable[["Engine"], Judged]
