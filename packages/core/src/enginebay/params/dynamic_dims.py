"""A dynamic dimension: the range of the sizes that an axis of an input may have."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping


class DynamicDim(msgspec.Struct, frozen=True):
    """One dynamic dimension; dimensions with the same name have the same size.

    Attributes:
        name: The dimension's name, a Python identifier; or a sum of other dimensions and numbers,
            ``past+tokens``, whose size follows from theirs.
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

    @property
    def is_sum(self) -> bool:
        """True if the size is a sum of others."""
        return "+" in self.name


def add_sizes(name: str, sizes: Mapping[str, int]) -> int | None:
    """Return the size of a sum from the sizes of its terms; None if a term is unknown.

    Example:
        >>> add_sizes("past+tokens+1", {"past": 5, "tokens": 2})
        8
    """
    terms = [int(term) if term.isdecimal() else sizes.get(term) for term in name.split("+")]
    return None if None in terms else sum(term for term in terms if term is not None)


#: Input name → axis → dimension.
DynamicShapes: TypeAlias = dict[str, dict[int, DynamicDim]]
