"""A dynamic dimension: the range of the sizes that an axis of an input may have."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class DynamicDim(msgspec.Struct, frozen=True):
    """One dynamic dimension; dimensions with the same name have the same size.

    Attributes:
        name: The dimension's name, a Python identifier.
        min: The smallest size.
        max: The largest size; None if unlimited.
        opt: The size that engines are tuned for; None if not specified.
    """

    name: str
    min: int = 1
    max: int | None = None
    opt: int | None = None

    def holds(self, size: int) -> bool:
        """Return True if the size is in the range."""
        return self.min <= size and (self.max is None or size <= self.max)


#: Input name → axis → dimension.
DynamicShapes: TypeAlias = dict[str, dict[int, DynamicDim]]
