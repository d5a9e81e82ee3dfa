"""Comparators: they compare outputs that are sets, such as indices, instead of place by place.

A comparator is a callable: a :class:`~enginebay.hooks.ComparisonRequest` in, a
:class:`~enginebay.hooks.ComparisonResult` out. Those here are called like those of plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from enginebay.lazy import lazy_names

if TYPE_CHECKING:
    from enginebay.comparators.assignment import (
        assign as assign,
        touching as touching,
    )
    from enginebay.comparators.comparator import Comparator as Comparator
    from enginebay.comparators.find import (
        find_comparators as find_comparators,
        recorded_comparators as recorded_comparators,
    )


__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "comparators.assignment": "assign touching",
        "comparators.comparator": "Comparator",
        "comparators.find": "find_comparators recorded_comparators",
    },
)
